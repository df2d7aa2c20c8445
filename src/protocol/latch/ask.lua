-- latch_ask: is a latch open?
-- KEYS[1]  string    the count
-- Returns  nil       open: the count is zero or was never set
--          -1        not yet
-- After Redisson RedissonCountDownLatch.awaitAsync.
if tonumber(redis.call('get', KEYS[1]) or 0) <= 0 then
  return nil
end
return -1
