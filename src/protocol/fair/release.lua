-- fair_release: ends a hold, or the wait of its owner, and tells the next one in line.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  list      owners that wait, the next one first
-- KEYS[3]  zset      owner -> epoch ms until which its place is kept
-- ARGV[1]  channel   where the next one is told, as <channel>:<owner>
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- Returns  nil       neither a hold nor a place
--          integer   released; how many subscribers were told (0 also if telling was refused)
-- Idempotent: a field is never used again. A count is lowered by lock_release.
-- After Redisson RedissonFairLock.unlockInnerAsync and acquireFailedAsync; here a place that is
-- given up moves nobody's deadline, and the next one is told if the lock is free.
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local channel, publish, owner = ARGV[1], ARGV[2], ARGV[3]
local ended = redis.call('hdel', lock, owner)
if redis.call('zrem', deadlines, owner) == 1 then
  ended = ended + 1
  redis.call('lrem', queue, 0, owner)
end
local told = 0
if redis.call('exists', lock) == 0 then
  local head = next_of(queue, deadlines, now_ms())
  if head then
    told = redis.pcall(publish, channel .. ':' .. head, '0')
  end
end
if ended == 0 then
  return nil
end
return type(told) == 'number' and told or 0
