-- What every script of the fair lock begins with: the queue and who is next in it.
-- An owner of this library is known by its number of 19 digits that begins with 4; the place of any
-- other is kept as Redisson keeps it.
local OTHERS_WAIT_MS = 300000
-- Clients may differ in their claim. None has a longer one, and a waiter that lives keeps its place
-- well within the other.
local LONGEST_CLAIM_MS, HEARTBEAT_MS = 60000, 2000

local function is_ours(owner)
  return #owner > 20 and string.find(owner, '^:4%d+$', -20) ~= nil
end

-- How much longer than a claim a place of ours is kept at the end, and each before it: a client of
-- Redisson that is granted takes its wait off all deadlines behind it. That wait is what it added to
-- the deadline before its own, or to the lease of the holder; it is never taken for less than its
-- default.
local function waits_before(queue, deadlines, now, claim_ms, left_ms)
  local longer, sum = {}, 0
  local later = redis.call('zcount', deadlines, string.format('(%.0f', now + claim_ms), '+inf')
  if later == 0 and is_ours(redis.call('lindex', queue, 0) or '')
    and is_ours(redis.call('lindex', queue, -1) or '') then
    -- No waiter of Redisson is seen without looking at the whole queue. A waiter of Redisson between
    -- ours whose time is nearly over would be missed, and that costs its place at most.
    return sum, longer
  end
  local before = now + math.max(left_ms, 0)
  for _, owner in ipairs(redis.call('lrange', queue, 0, -1)) do
    longer[owner] = sum
    if is_ours(owner) then
      before = now + claim_ms + sum
    else
      local kept_until = tonumber(redis.call('zscore', deadlines, owner) or 0)
      sum = sum + math.max(OTHERS_WAIT_MS, kept_until - before)
      before = kept_until
    end
  end
  return sum, longer
end

-- How long a queue stays after the last heartbeat of ours: much longer than it keeps any place.
local KEPT_MS = 86400000

-- The keys of a queue whose waiters have all died are to go. A waiter of Redisson joins a queue with the
-- expiry that it finds, and never moves it on: its place lasts only in keys without.
local function expire(queue, deadlines, has_others)
  for _, key in ipairs({ queue, deadlines }) do
    if has_others then
      redis.call('persist', key)
    else
      redis.call('pexpire', key, KEPT_MS)
    end
  end
end

-- Some were taken off, and each of ours that stays has heartbeats. If none stays, a thread of Redisson is the last.
local function keep_for_others(queue, deadlines)
  local last = redis.call('lindex', queue, -1)
  if last and not is_ours(last) then
    expire(queue, deadlines, true)
  end
end

-- The next owner in the queue, for how long its place is kept, and whether dead ones were taken off.
-- An owner without a deadline is dead too: it lost it, and nobody else would ever take it off.
local function next_of(queue, deadlines, now)
  local purged = false
  while true do
    local head = redis.call('lindex', queue, 0)
    if not head then
      redis.call('del', deadlines)
      return nil, 0, purged
    end
    local kept_ms = tonumber(redis.call('zscore', deadlines, head) or 0) - now
    if kept_ms > 0 then
      if purged then
        keep_for_others(queue, deadlines)
      end
      return head, kept_ms, purged
    end
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, head)
    purged = true
  end
end

