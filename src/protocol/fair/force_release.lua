-- fair_force_release: frees a fair lock, whoever holds it, or only if one owner holds it, and gives it to
-- the next waiter.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  list      owners that wait, the next one first
-- KEYS[3]  zset      owner -> epoch ms until which its place is kept
-- ARGV[1]  channel   where the next waiter gets its message, as <channel>:<owner>
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name, or an empty text for any owner
-- ARGV[4]  note      who frees it and why, each on a line, for the holder
-- Returns  1 if it was freed, 0 if nobody held it, -1 if another owner holds it
-- Data of another type is refused, not deleted.
-- After Redisson RedissonFairLock.forceUnlockAsync.
local key, owner = KEYS[1], ARGV[3]
local owners = redis.call('hgetall', key)
if #owners > 0 and owner ~= '' and redis.call('hexists', key, owner) == 0 then
  return -1
end
local held = redis.call('del', key)
-- Also if nobody held the lock: the waiters that got an earlier message may be dead.
pass_on(key, KEYS[2], KEYS[3], ARGV[1], ARGV[2])
tell_clients(owners, key, ARGV[4])
return held
