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
-- ARGV[6]  queueing  integer: 0 does not queue; 1 at the end, and asks for the first time; 2 at the end; 3 at the
--                    front (its place was purged by mistake); 4 keeps its place, and gets no new one
-- ARGV[7..] earlier  if it goes to the front: up to eight waiters of its client that came before it, the last one first
-- Returns  nil       acquired
--          integer   if next: remaining lease of the holder in ms, -1 if its key has no expiry;
--                    if not next: -1, and the owner will get a message; -2 if it should keep a place that is gone;
--                    -3, next or not, if Redisson may wake it, on the owner's channel, and it listens on its client's
-- Idempotent: a repeated call finds its own field or its own place.
-- After Redisson RedissonFairLock.tryLockInnerAsync. When a Redisson client gets the lock, it
-- subtracts its own wait from all deadlines behind it. So a place behind such a client is kept for
-- that much longer.

-- So many are named.
local NAMED = 8

-- Puts an owner at the front, but behind earlier owners of the same client, because all of them may have been removed
-- together. It goes behind the first named one that has a place. The queue is read only if there may be others: their
-- fields have lower numbers after the first digit.
local function put_back(queue, deadlines, owner)
  local named, behind = { unpack(ARGV, 7) }, nil
  for _, other in ipairs(named) do
    if redis.call('zscore', deadlines, other) then
      behind = other
      break
    end
  end
  if not behind and #named == NAMED then
    for _, other in ipairs(redis.call('lrange', queue, 0, -1)) do
      local same = #other == #owner and string.sub(other, 1, -20) == string.sub(owner, 1, -20)
      if same and string.sub(other, -18) < string.sub(owner, -18) then
        behind = other
      end
    end
  end
  if not behind or redis.call('linsert', queue, 'after', behind, owner) < 1 then
    redis.call('lpush', queue, owner)
  end
end

local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local channel, publish, owner, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local claim_ms, queueing = tonumber(ARGV[5]), tonumber(ARGV[6])
local FIRST, AT_THE_FRONT, KEEP = 1, 3, 4
local WOKEN_BY_OTHERS = -3
-- Owner and count of the holder, or nothing.
local holder = redis.call('hgetall', lock)
for i = 1, #holder, 2 do
  if holder[i] == owner then
    -- Writes even if the lease is as long, so that who waits for copies waits for one of the grant.
    local left_ms = redis.call('pttl', lock)
    if left_ms ~= -1 and left_ms <= lease_ms then
      redis.call('pexpire', lock, lease_ms)
    end
    return nil
  end
end
local held = #holder > 0
-- While the lock is held, heartbeats remove dead waiters. Nobody who comes then needs to look for them.
if held and queueing == KEEP then
  if not redis.call('zscore', deadlines, owner) then
    return -2
  end
  return redis.call('lindex', queue, 0) == owner and redis.call('pttl', lock) or -1
end
-- The reply to who waits.
local function waits(is_next, others_ms)
  if client_of(owner) and (others_ms > 0 or held and not is_ours(holder[1])) then
    return WOKEN_BY_OTHERS
  end
  return is_next and redis.call('pttl', lock) or -1
end
local now = now_ms()
if held and queueing == FIRST then
  -- It is there already if this call is a repetition.
  if redis.call('zadd', deadlines, 'nx', string.format('%.0f', now + claim_ms), owner) == 1 then
    if redis.call('rpush', queue, owner) == 1 then
      expire(queue, deadlines, false)
      return waits(true, 0)
    end
    local others_ms = waits_before(lock, queue, deadlines, now, claim_ms, -2)
    if others_ms > 0 then
      redis.call('zadd', deadlines, string.format('%.0f', now + claim_ms + others_ms), owner)
      expire(queue, deadlines, true)
    end
    return waits(false, others_ms)
  end
end
local head, head_kept_ms, purged, after = next_of(queue, deadlines, now)
local is_first, others_ms = not head, 0
local kept_until = 0
if head == owner then
  kept_until = now + head_kept_ms
else
  kept_until = tonumber(redis.call('zscore', deadlines, owner) or 0)
end
if queueing == KEEP and kept_until == 0 then
  return -2
end
if queueing == AT_THE_FRONT and kept_until == 0 then
  put_back(queue, deadlines, owner)
  head, after = unpack(redis.call('lrange', queue, 0, 1))
end
if not held and (not head or head == owner) then
  if head then
    remove_first(queue, deadlines, owner, after)
  end
  redis.call('hset', lock, owner, 1)
  redis.call('pexpire', lock, lease_ms)
  return nil
end
if not held and purged then
  tell(channel, publish, head, '0')
end
if queueing == 0 then
  return held and redis.call('pttl', lock) or -1
end
if kept_until == 0 and queueing ~= AT_THE_FRONT then
  others_ms = waits_before(lock, queue, deadlines, now, claim_ms, -1)
  kept_until = now + claim_ms + others_ms
  redis.call('rpush', queue, owner)
end
kept_until = math.max(kept_until, now + claim_ms)
redis.call('zadd', deadlines, string.format('%.0f', kept_until), owner)
if is_first or others_ms > 0 then
  expire(queue, deadlines, others_ms > 0)
end
return waits(head == owner or is_first, others_ms)
