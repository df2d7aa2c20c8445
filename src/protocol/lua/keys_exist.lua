-- keys_exist: counts which of the keys exist. The safety poll of all waiters of a client.
-- KEYS[1..n]  any type
-- Returns     integer  how many exist
return redis.call('exists', unpack(KEYS))
