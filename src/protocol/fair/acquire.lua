-- fair_acquire: takes the lock if it is free and nobody is ahead in the queue, or keeps a place in
-- the queue.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  list      owners that wait, the next one first
-- KEYS[3]  zset      owner -> epoch ms until which its place is kept
-- ARGV[1]  channel   where the next waiter gets its message, as <channel>:<owner>
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name, never used before
-- ARGV[4]  lease_ms  integer > 0
-- ARGV[5]  claim_ms  integer > 0, how long a place is kept without a heartbeat
-- ARGV[6]  queueing  integer: 0 does not queue, 1 at the end, 2 at the front (its place was purged by mistake)
-- Returns  nil       acquired
--          integer   if next: remaining lease of the holder in ms, -1 if its key has no expiry;
--                    if not next: -1, and the owner will get a message
-- Idempotent: a repeated call finds its own field or its own place.
-- After Redisson RedissonFairLock.tryLockInnerAsync. When a Redisson client gets the lock, it
-- subtracts its own wait from all deadlines behind it. So a place behind such a client is kept for
-- that much longer.

-- Puts an owner at the front, but behind earlier owners of the same client, whose fields have lower
-- numbers. All of them may have been removed together.
local function put_back(queue, owner)
  local waiting, before = redis.call('lrange', queue, 0, -1), 0
  for i, other in ipairs(waiting) do
    local same = #other == #owner and string.sub(other, 1, -20) == string.sub(owner, 1, -20)
    if same and other < owner then
      before = i
    end
  end
  if before == #waiting then
    -- Not by the way below, which empties the list in between: the list would lose its expiry.
    redis.call('rpush', queue, owner)
    return
  end
  for _ = 1, before do
    redis.call('lpop', queue)
  end
  redis.call('lpush', queue, owner)
  for i = before, 1, -1 do
    redis.call('lpush', queue, waiting[i])
  end
end

local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local channel, publish, owner, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local claim_ms, queueing = tonumber(ARGV[5]), tonumber(ARGV[6])
local left_ms = redis.call('pttl', lock)
if left_ms ~= -2 and redis.call('hexists', lock, owner) == 1 then
  if left_ms < lease_ms then
    redis.call('pexpire', lock, lease_ms)
  end
  return nil
end
local now = now_ms()
local head, _, purged = next_of(queue, deadlines, now)
local is_first, others_ms = not head, 0
local kept_until = tonumber(redis.call('zscore', deadlines, owner) or 0)
if queueing == 2 and kept_until == 0 then
  put_back(queue, owner)
  head = redis.call('lindex', queue, 0)
end
if left_ms == -2 and (not head or head == owner) then
  if head then
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, owner)
    keep_for_others(queue, deadlines)
  end
  redis.call('hset', lock, owner, 1)
  redis.call('pexpire', lock, lease_ms)
  return nil
end
if left_ms == -2 and purged then
  redis.pcall(publish, channel .. ':' .. head, '0')
end
if queueing == 0 then
  return left_ms == -2 and -1 or left_ms
end
if queueing == 1 and kept_until == 0 then
  others_ms = waits_before(queue, deadlines, now, claim_ms, left_ms)
  kept_until = now + claim_ms + others_ms
  redis.call('rpush', queue, owner)
end
kept_until = math.max(kept_until, now + claim_ms)
redis.call('zadd', deadlines, string.format('%.0f', kept_until), owner)
if is_first or others_ms > 0 then
  expire(queue, deadlines, others_ms > 0)
end
if head == owner or redis.call('lindex', queue, 0) == owner then
  return left_ms
end
return -1
