-- fair_rest: leaves a hold of a fair lock to its expiry, and notifies the next waiter, which asks for the new expiry.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  list      owners that wait, the next one first
-- KEYS[3]  zset      owner -> epoch ms until which its place is kept
-- ARGV[1]  owner     field name
-- ARGV[2]  rest_ms   the lock is free after this time, integer > 0
-- ARGV[3]  channel   where the next waiter gets its message, as <channel>:<owner>
-- ARGV[4]  publish   PUBLISH or SPUBLISH
-- Returns  nil       no such hold
--          1         done
-- Idempotent: a field is never used again.
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
if redis.call('hexists', lock, ARGV[1]) == 0 then
  return nil
end
redis.call('pexpire', lock, ARGV[2])
local head = next_of(queue, deadlines, now_ms())
if head then
  tell(ARGV[3], ARGV[4], head, '0')
end
return 1
