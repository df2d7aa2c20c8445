-- write_release: ends a write hold, and publishes that the lock is free or left to the read holds
-- of the same owner.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    the prefix of the keys of all read holds; not a key itself
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- Returns  nil       no such hold
--          integer   released; how many subscribers received the message (0 also if PUBLISH was refused)
--          array     the same, and then the keys that read_tidy must declare: the server refuses undeclared keys,
--                    so all read holds count as alive
-- Idempotent: a field is never used again. A count is lowered by lock_release.
-- After Redisson RedissonWriteLock.unlockInnerAsync. Here a downgrade is also published to waiting
-- readers.
local key, channel, publish, owner = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('hdel', key, owner) == 0 then
  return nil
end
local lease_ms = redis.call('pttl', key)
if readers_left(key, KEYS[2], lease_ms) then
  redis.call('hset', key, 'mode', 'read')
else
  redis.call('del', key)
end
return receivers_of(redis.pcall(publish, channel, '1'))
