-- semaphore_add: adds or removes permits, and publishes how many are available.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  string    the latest request of this client that used this key, and its reply, for a while
-- KEYS[3]  zset      holds, of either kind of semaphore; a new semaphore starts without
-- KEYS[4]  string    the limit that was applied last; the same
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  permits   integer, negative to take away
-- ARGV[4]  request   its number, integer > 0
-- ARGV[5]  keep_ms   how long the reply is kept, integer > 0
-- Returns  integer   available permits
-- Idempotent while the reply is kept. After Redisson RedissonSemaphore.addPermitsAsync
-- and releaseAsync. An expiry of the semaphore stays as it is.
local before = reply_before(KEYS[2], ARGV[4])
if before then
  return before
end
if redis.call('exists', KEYS[1]) == 0 then
  redis.call('del', KEYS[3], KEYS[4])
end
if tonumber(ARGV[3]) > 0 then
  let_writes_through(KEYS[3])
end
local value = redis.call('incrby', KEYS[1], ARGV[3])
keep_reply(KEYS[2], ARGV[4], value, ARGV[5])
if value > 0 then
  redis.pcall(ARGV[2], ARGV[1], value)
end
return value
