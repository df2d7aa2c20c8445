-- fair_release: ends a hold or the wait of its owner, and gives a free lock to the next waiter.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  list      owners that wait, the next one first
-- KEYS[3]  zset      owner -> epoch ms until which its place is kept
-- ARGV[1]  channel   where the next waiter gets its message, as <channel>:<owner>
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- Returns  nil       neither a hold nor a place
--          integer   released; how many subscribers received the message (0 also if PUBLISH was refused)
-- Idempotent: a field is never used again. A count is lowered by lock_release.
-- After Redisson RedissonFairLock.unlockInnerAsync and acquireFailedAsync. Unlike there, giving up
-- a place changes no other deadline, and the lock goes to the next waiter in the same step.
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local channel, publish, owner = ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('hdel', lock, owner) == 1
-- An owner that holds the lock has no place.
local waited = not held and redis.call('zrem', deadlines, owner) == 1
if waited then
  redis.call('lrem', queue, 0, owner)
  keep_for_others(queue, deadlines)
end
local receivers = 0
-- There is one holder at a time.
if held or redis.call('exists', lock) == 0 then
  receivers = pass_on(lock, queue, deadlines, channel, publish)
end
if held or waited then
  return receivers
end
return nil
