-- reclaim_leave: ends the registration of a client that holds nothing any more, so that no grace waits for it.
-- KEYS[1]  hash     the registrations, see register.lua
-- ARGV[1]  client   its id
-- Returns  integer  1 if it was registered
return redis.call('hdel', KEYS[1], 'until:' .. ARGV[1], 'back:' .. ARGV[1])
