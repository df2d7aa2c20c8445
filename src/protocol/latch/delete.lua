-- latch_delete: deletes a latch and lets all its waiters go.
-- KEYS[1]  string    the count
-- ARGV[1]  channel   where it is published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  1 if there was one, else 0
-- After Redisson RedissonCountDownLatch.deleteAsync, which tells of a new count and frees nobody.
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
redis.pcall(ARGV[2], ARGV[1], '0')
return 1
