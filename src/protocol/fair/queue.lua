-- The beginning of every script of the fair lock: the queue and who is next in it. Owners of this
-- library have a number of 19 digits. It begins with 5 if their messages come on the channel of their
-- client, and with 4 otherwise. The places of all other owners are kept the way Redisson keeps them.
local OTHERS_WAIT_MS = 300000
-- Clients may have different claims. LONGEST_CLAIM_MS is the longest one allowed, and a living
-- waiter sends a heartbeat well within HEARTBEAT_MS.
local LONGEST_CLAIM_MS, HEARTBEAT_MS = 60000, 2000

local function is_ours(owner)
  return #owner > 20 and string.find(owner, '^:[45]%d+$', -20) ~= nil
end

-- The client on whose channel the messages to this waiter come.
local function client_of(owner)
  return is_ours(owner) and string.match(owner, '^(%x+%-%x+%-%x+%-%x+%-%x+):5')
end

-- Sends a message to a waiter. Returns how many subscribers received it (0 also if PUBLISH was refused).
local function tell(channel, publish, owner, message)
  local to, client, receivers = channel .. ':' .. owner, client_of(owner), nil
  if client then
    receivers = redis.pcall('publish', 'leasehold_client:{' .. client .. '}', '\0for ' .. message .. ' ' .. to)
  else
    receivers = redis.pcall(publish, to, message)
  end
  return type(receivers) == 'number' and receivers or 0
end

-- A release may give the lock to this owner, for as long as its place is kept: its lease is not shorter. The locks `x` and
-- `{x}` have one queue. Who waits for `{x}` takes no grants, so what is given must be `x`.
local function takes_grants(lock, owner)
  return is_ours(owner) and string.find(owner, '[02468]$') ~= nil and not string.find(lock, '^{[^{}]*}$')
end

-- How much longer than a claim a place is kept: first at the end of the queue, then for each owner
-- of this library. When a Redisson client gets the lock, it subtracts its wait from all deadlines
-- behind it. Its wait is what it added to the deadline before its own, or to the lease of the
-- holder. The sum assumes at least Redisson's default wait. `last` is the index of the last place
-- that counts.
local function waits_before(lock, queue, deadlines, now, claim_ms, last)
  local longer, sum = {}, 0
  local later = redis.call('zcount', deadlines, string.format('(%.0f', now + LONGEST_CLAIM_MS), '+inf')
  if later == 0 and is_ours(redis.call('lindex', queue, last) or '') then
    -- Redisson waiters are visible only by reading the whole queue. Owners of this library behind one have a place for
    -- longer than any claim, so there is none before the last. This misses one whose time is nearly over, and that has
    -- just come behind an owner of this library: at worst it loses its place.
    return sum, longer
  end
  local before = now + math.max(redis.call('pttl', lock), 0)
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

-- How long a queue stays after the last heartbeat: much longer than any place lasts.
local KEPT_MS = 86400000

-- The keys of a queue must expire when all its waiters have died. But a Redisson waiter that joins
-- a queue leaves the expiry as it is, so its place is safe only in keys without an expiry.
local function expire(queue, deadlines, has_others)
  for _, key in ipairs({ queue, deadlines }) do
    if has_others then
      redis.call('persist', key)
    else
      redis.call('pexpire', key, KEPT_MS)
    end
  end
end

-- Some owners were removed. Owners of this library send heartbeats, which set the expiry. If none
-- is left, the last one in the queue is a Redisson thread.
local function keep_for_others(queue, deadlines)
  local last = redis.call('lindex', queue, -1)
  if last and not is_ours(last) then
    expire(queue, deadlines, true)
  end
end

-- The next owner in the queue, how long its place is kept, whether dead owners were removed, and
-- who comes after it. An owner without a deadline counts as dead, because nobody else would ever
-- remove it.
local function next_of(queue, deadlines, now)
  local purged = false
  while true do
    local first = redis.call('lrange', queue, 0, 1)
    local head = first[1]
    if not head then
      redis.call('del', deadlines)
      return nil, 0, purged
    end
    local kept_ms = tonumber(redis.call('zscore', deadlines, head) or 0) - now
    if kept_ms > 0 then
      if purged then
        keep_for_others(queue, deadlines)
      end
      return head, kept_ms, purged, first[2]
    end
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, head)
    purged = true
  end
end

-- The turn of the next owner has come. If the one after it is a Redisson thread, it may be that no
-- owner of this library is left, whose heartbeats would prolong the queue.
local function remove_first(queue, deadlines, first, after)
  redis.call('lpop', queue)
  redis.call('zrem', deadlines, first)
  if after and not is_ours(after) then
    expire(queue, deadlines, true)
  end
end

-- The lock is free: gives it to the next owner, and returns how many subscribers received the
-- message. An owner that takes grants has it at once, as a lease that ends when its place would have
-- ended; the message says how long that is. So a dead one costs no more than its place did. Any
-- other owner is told that its turn has come.
local function pass_on(lock, queue, deadlines, channel, publish)
  local head, kept_ms, _, after = next_of(queue, deadlines, now_ms())
  if not head then
    return 0
  end
  local message = '0'
  if takes_grants(lock, head) then
    if kept_ms > LONGEST_CLAIM_MS then
      -- Redisson clients were ahead, and its deadline needs no extra time any more.
      kept_ms = HEARTBEAT_MS
    end
    -- First, because a slot that migrates refuses to write the lock. Then the waiter keeps its place.
    redis.call('hset', lock, head, 1)
    redis.call('pexpire', lock, kept_ms)
    remove_first(queue, deadlines, head, after)
    message = string.format('%.0f', kept_ms)
  end
  return tell(channel, publish, head, message)
end

