-- count_set: sets the number of a semaphore or latch that does not exist, and publishes a message.
-- KEYS[1]  string    the number
-- KEYS[2]  string    the latest request of this client that used this key, and its reply, for a while
-- KEYS[3]  zset      for a semaphore: its holds; those of an earlier semaphore are removed
-- KEYS[4]  string    for a semaphore: the limit that was applied last; the same
-- ARGV[1]  channel   where the message is published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  number    integer
-- ARGV[4]  message   what is published
-- ARGV[5]  request   its number, integer > 0
-- ARGV[6]  keep_ms   how long the reply is kept, integer > 0
-- ARGV[7]  life_ms   the number expires after this time; 0: never
-- Returns  1 if it was set, 0 if there was one
-- Idempotent while the reply is kept. After Redisson RedissonSemaphore.trySetPermitsAsync and
-- RedissonCountDownLatch.trySetCountAsync.
local before = reply_before(KEYS[2], ARGV[5])
if before then
  return before
end
local set = 0
if redis.call('exists', KEYS[1]) == 0 then
  redis.call('set', KEYS[1], ARGV[3])
  if KEYS[3] then
    redis.call('del', KEYS[3], KEYS[4])
  end
  if tonumber(ARGV[7]) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[7])
  end
  redis.pcall(ARGV[2], ARGV[1], ARGV[4])
  set = 1
end
keep_reply(KEYS[2], ARGV[5], set, ARGV[6])
return set
