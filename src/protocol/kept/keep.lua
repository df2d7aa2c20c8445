-- kept: writes a string that has no value yet, and says which value it had.
-- KEYS[1]  string    the value
-- ARGV[1]  value     any text
-- ARGV[2]  keep_ms   integer >= 0, 0: only read
-- Returns  the value that was there, or nil
-- Idempotent: the first value stays.
local there, keep_ms = redis.call('get', KEYS[1]), tonumber(ARGV[2])
if not there and keep_ms > 0 then
  redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
end
return there
