-- latch_count_down: lowers the count of a latch; at zero it deletes the latch and publishes a
-- message.
-- KEYS[1]  string    the count
-- KEYS[2]  string    the latest request of this client that used this key, and its reply, for a while
-- ARGV[1]  channel   where it is published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  request   its number, integer > 0
-- ARGV[4]  keep_ms   how long the reply is kept, integer > 0
-- Returns  integer   the new count, never below zero
-- Idempotent while the reply is kept. After Redisson RedissonCountDownLatch.countDownAsync.
local before = reply_before(KEYS[2], ARGV[3])
if before then
  return before
end
-- Opening the latch must succeed on a full server too, which accepts writes after a first write of
-- any kind.
redis.call('del', KEYS[2])
local count = 0
if redis.call('exists', KEYS[1]) == 1 then
  count = redis.call('decr', KEYS[1])
  if count <= 0 then
    redis.call('del', KEYS[1])
    redis.pcall(ARGV[2], ARGV[1], '0')
    count = 0
  end
end
keep_reply(KEYS[2], ARGV[3], count, ARGV[4])
return count
