-- The rest of lock_release: one of the waiters that are listed beside the holder gets the lock, or all may ask.

-- Clients of Redisson listen without an entry, and so do those that found no room. Beside them, no two releases in a row give
-- the lock. If it is not known who listens, at most so many do.
local LONGEST_STREAK = 7

local function may_give(channel, publish, streak, listed)
  if streak == 0 or streak >= LONGEST_STREAK then
    return streak == 0
  end
  local count = listening(publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return count >= 0 and count <= listed
end

-- The message on the channel of the waiter's client. Returns how many subscribers received it.
local function tell(channel, question, lease_ms, owner)
  local client = string.match(owner, '^(%x+%-%x+%-%x+%-%x+%-%x+):')
  local message = table.concat({ '\0granted', question, lease_ms, owner, channel }, ' ')
  local heard = client and redis.pcall('publish', 'leasehold_client:{' .. client .. '}', message)
  return type(heard) == 'number' and heard or 0
end

-- A lease that begins here is short. The waiter renews it, or asks for its own.
local function gave_it_to_a_waiter(key, holder, value, channel, publish, own)
  local _, streak, entries = waiters_in(value)
  local may_try = streak and entries[1] and may_give(channel, publish, streak, #entries + own)
  while may_try and entries[1] do
    local question, lease_ms, owner = string.match(table.remove(entries, 1), '^(%d+):(%d+):(.+);$')
    if owner then
      -- Before the message, because a server that takes no writes stops the script here. And before HSET, because a full
      -- server refuses that until the script has written something.
      redis.call('pexpire', key, lease_ms)
      if tell(channel, question, lease_ms, owner) > 0 then
        redis.call('hset', key, owner, value_of(1, streak + 1, entries))
        redis.call('hdel', key, holder)
        return true
      end
    end
  end
  return false
end

local value = redis.call('hget', key, owner)
if value and gave_it_to_a_waiter(key, owner, value, channel, publish, own) then
  return -2
end
if value then
  return free()
end
change_waiters(key, function(entries)
  local at = entry_of(entries, owner)
  return at and table.remove(entries, at)
end)
return nil
