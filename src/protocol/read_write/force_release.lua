-- rw_force_release: frees one side of a read/write lock, whoever holds it.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  mode      read or write
-- Returns  1 if that side was held, else 0
-- After Redisson RedissonReadLock.forceUnlockAsync and RedissonWriteLock.forceUnlockAsync.
if redis.call('hget', KEYS[1], 'mode') ~= ARGV[3] then
  return 0
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2], ARGV[1], ARGV[3] == 'write' and '1' or '0')
return 1
