-- latch_count: the count of a latch.
-- KEYS[1]  string    the count
-- Returns  integer   0 if it was never set
return tonumber(redis.call('get', KEYS[1]) or 0)
