-- latch_delete: deletes a latch and lets all its waiters go on.
-- KEYS[1]  string    the count
-- ARGV[1]  channel   where it is published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  1 if there was one, else 0
-- After Redisson RedissonCountDownLatch.deleteAsync, which publishes a new count and lets nobody go
-- on.
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
redis.pcall(ARGV[2], ARGV[1], '0')
return 1
