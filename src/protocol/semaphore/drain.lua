-- semaphore_drain: takes all available permits.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  string    the latest request of this client that used this key, and its reply, for a while
-- KEYS[3]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  request   its number, integer > 0
-- ARGV[4]  keep_ms   how long the reply is kept, integer > 0
-- Returns  integer   how many were taken, including those of dead holders; negative if the number was
--                    negative
-- Idempotent while the reply is kept. After Redisson RedissonSemaphore.drainPermitsAsync. An expiry
-- of the semaphore stays as it is.
local before = reply_before(KEYS[2], ARGV[3])
if before then
  return before
end
purge(KEYS[1], KEYS[3], ARGV[1], ARGV[2], now_ms())
local value = tonumber(redis.call('get', KEYS[1]) or 0)
if value ~= 0 then
  redis.call('decrby', KEYS[1], value)
end
keep_reply(KEYS[2], ARGV[3], value, ARGV[4])
return value
