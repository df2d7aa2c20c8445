-- semaphore_drain: takes all permits that are available and leaves none.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  string    the reply to this request, for a while
-- KEYS[3]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  keep_ms   how long the reply is kept, integer > 0
-- Returns  integer   how many were taken, those of dead holders included; negative if permits had
--                    been taken away
-- Idempotent while the reply is kept. After Redisson RedissonSemaphore.drainPermitsAsync; an expiry
-- of the semaphore is left alone.
local before = redis.call('get', KEYS[2])
if before then
  return tonumber(before)
end
purge(KEYS[1], KEYS[3], ARGV[1], ARGV[2], now_ms())
local value = tonumber(redis.call('get', KEYS[1]) or 0)
if value ~= 0 then
  redis.call('decrby', KEYS[1], value)
end
redis.call('set', KEYS[2], value, 'px', ARGV[3])
return value
