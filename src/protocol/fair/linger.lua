-- fair_linger: leaves a hold without guards to its expiry, and notifies the next waiter.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  list      owners that wait, the next one first
-- KEYS[3]  zset      owner -> epoch ms until which its place is kept
-- ARGV[1]  channel   where the next waiter gets its message, as <channel>:<owner>
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- ARGV[4]  rest_ms   the lock is free after this time, integer > 0
-- Returns  nil       no such hold
--          integer   done; how many subscribers received the message (0 also if PUBLISH was refused)
-- Idempotent: a field is never used again, and a repeated call brings the time that is left by
-- then.
-- The next waiter asks, keeps its place, and learns the new expiry.
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
if redis.call('hexists', lock, ARGV[3]) == 0 then
  return nil
end
redis.call('pexpire', lock, ARGV[4])
local head = next_of(queue, deadlines, now_ms())
return head and tell(ARGV[1], ARGV[2], head, '0') or 0
