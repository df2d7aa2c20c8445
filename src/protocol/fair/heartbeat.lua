-- fair_heartbeat: keeps the places of living waiters, and returns which one is next.
-- KEYS[1]   hash      owner field -> holds
-- KEYS[2]   list      owners that wait, the next one first
-- KEYS[3]   zset      owner -> epoch ms until which its place is kept
-- ARGV[1]   channel   where the next waiter gets its message, as <channel>:<owner>
-- ARGV[2]   publish   PUBLISH or SPUBLISH
-- ARGV[3]   claim_ms  integer > 0, how long a place is kept without a heartbeat
-- ARGV[4..] owner     waiters of one client
-- Returns   array     ms until the holder's lease expires or, if the lock is free, until the next owner's
--                     place expires (-1 if there is neither); then for each waiter 0 its place is gone,
--                     1 it waits, 2 it is next and the lock is free
-- Idempotent. While the lock is free, the next owner's place is not prolonged: the owner comes, or
-- it loses its place.
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local channel, publish, claim_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local now = now_ms()
local head, kept_ms, purged = next_of(queue, deadlines, now)
local left_ms = redis.call('pttl', lock)
local free = left_ms == -2
if free and head and purged then
  tell(channel, publish, head, '0')
end
let_writes_through(deadlines)
if head and is_ours(head) and kept_ms > LONGEST_CLAIM_MS then
  -- No Redisson client is ahead of it any more, so its deadline needs no extra time. If it is
  -- alive, its own heartbeat follows soon and keeps its place for its own claim.
  kept_ms = math.max(claim_ms, HEARTBEAT_MS)
  redis.call('zadd', deadlines, 'xx', string.format('%.0f', now + kept_ms), head)
end
local others_ms, longer = waits_before(lock, queue, deadlines, now, claim_ms, -1)
expire(queue, deadlines, others_ms > 0)
local answer = { free and (head and kept_ms or -1) or left_ms }
for i = 4, #ARGV do
  local owner = ARGV[i]
  if not redis.call('zscore', deadlines, owner) then
    answer[i - 2] = 0
  elseif free and owner == head then
    answer[i - 2] = 2
  else
    local kept_until = now + claim_ms + (longer[owner] or 0)
    redis.call('zadd', deadlines, 'xx', string.format('%.0f', kept_until), owner)
    answer[i - 2] = 1
  end
end
return answer
