-- read_release: ends a read hold; the last one frees the lock and publishes a message.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    expires with this hold
-- KEYS[3]  string    the prefix of the keys of all read holds; not a key itself
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- Returns  nil       no such hold
--          integer   released; how many subscribers received the message (0 also if others still hold it)
--          array     the same, and then the keys that read_tidy must declare: the server refuses undeclared keys,
--                    so all other readers count as alive
-- Idempotent: a field is never used again.
-- After Redisson RedissonReadLock.unlockInnerAsync. In write mode the lease does not change.
local ended_ms = redis.call('pttl', KEYS[2])
redis.call('del', KEYS[2])
if redis.call('hdel', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('hget', KEYS[1], 'mode') == 'write' then
  return 0
end
if readers_left(KEYS[1], KEYS[3], ended_ms) then
  return receivers_of(0)
end
redis.call('del', KEYS[1])
return receivers_of(redis.pcall(ARGV[2], ARGV[1], '0'))
