-- lock_force_release: frees a lock, whoever holds it.
-- KEYS[1]  hash      owner field -> holds
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  1 if it was held, else 0
-- Data of another type is refused, not deleted.
-- After Redisson RedissonLock.forceUnlockAsync.
redis.call('hexists', KEYS[1], '')
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
redis.pcall(ARGV[2], ARGV[1], '0')
return 1
