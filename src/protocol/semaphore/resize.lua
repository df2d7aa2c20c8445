-- semaphore_resize: sets the total number of permits, held ones included.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      owner:permits -> epoch ms until which it holds them
-- KEYS[3]  string    the limit that was applied last
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  permits   integer >= 0
-- ARGV[4]  declares  integer: 1 if the total is a limit that the caller declares, 0 if it only replaces one
-- Returns  integer   available permits; negative if more are held than the new total
-- Idempotent. Redisson keeps no holds, so the permits that it holds are not counted.
if redis.call('exists', KEYS[1]) == 0 then
  redis.call('del', KEYS[2])
end
purge(KEYS[1], KEYS[2], ARGV[1], ARGV[2], now_ms())
local before = tonumber(redis.call('get', KEYS[1]) or 0)
local change = tonumber(ARGV[3]) - before - held_in(KEYS[2])
if change > 0 then
  let_writes_through(KEYS[2])
end
if ARGV[4] == '1' then
  redis.call('set', KEYS[3], ARGV[3])
else
  redis.call('set', KEYS[3], ARGV[3], 'xx')
end
local value = redis.call('incrby', KEYS[1], change)
local ends_ms = redis.call('pttl', KEYS[1])
if ends_ms > 0 then
  redis.call('pexpire', KEYS[3], ends_ms)
end
if change > 0 and value > 0 then
  redis.pcall(ARGV[2], ARGV[1], value)
end
return value
