-- fair_force_release: frees a fair lock, whatever holds it, and sends the next waiter its message.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  list      owners that wait, the next one first
-- KEYS[3]  zset      owner -> epoch ms until which its place is kept
-- ARGV[1]  channel   where the next waiter gets its message, as <channel>:<owner>
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  1 if it was held, else 0
-- Data of another type is refused, not deleted.
-- After Redisson RedissonFairLock.forceUnlockAsync.
redis.call('hexists', KEYS[1], '')
local head = next_of(KEYS[2], KEYS[3], now_ms())
local held = redis.call('del', KEYS[1])
-- Also if nobody held the lock: the waiters that got an earlier message may be dead.
if head then
  redis.pcall(ARGV[2], ARGV[1] .. ':' .. head, '0')
end
return held
