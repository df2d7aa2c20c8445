-- The rest of lock_release: one of the waiters that are listed beside the holder gets the lock, or all may ask.

-- Clients of Redisson listen without an entry, and so do those that found no room. They have as large a share as those that
-- are listed: all may ask after so many grants as there are entries for each of them, but at least one and at most so many.
local LONGEST_STREAK = 7

local function may_give(channel, publish, streak, listed, own)
  if streak == 0 or streak >= LONGEST_STREAK then
    return streak == 0
  end
  local count = listening(publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  local unlisted = math.max(count - own - listed, 0)
  return count >= 0 and streak * unlisted < listed
end

-- The message on the channel of the waiter's client. Returns how many subscribers received it.
local function tell(channel, question, lease_ms, owner)
  local client = string.match(owner, '^(%x+%-%x+%-%x+%-%x+%-%x+):')
  local message = table.concat({ '\0granted', question, lease_ms, owner, channel }, ' ')
  local heard = client and redis.pcall('publish', 'leasehold_client:{' .. client .. '}', message)
  return type(heard) == 'number' and heard or 0
end

-- A lease that begins here is short. The waiter renews it, or asks for its own.
local GIVEN, FOR_OTHERS = -2, -3
local function given_to_a_waiter(key, holder, value, channel, publish, own)
  local _, streak, entries = waiters_in(value)
  if not streak or not entries[1] then
    return nil
  end
  if not may_give(channel, publish, streak, #entries, own) then
    return FOR_OTHERS
  end
  while entries[1] do
    local question, lease_ms, owner = string.match(table.remove(entries, 1), '^(%d+):(%d+):(.+);$')
    if owner then
      -- Before the message, because a server that takes no writes stops the script here. And before HSET, because a full
      -- server refuses that until the script has written something.
      redis.call('pexpire', key, lease_ms)
      if tell(channel, question, lease_ms, owner) > 0 then
        redis.call('hset', key, owner, value_of(1, streak + 1, entries))
        redis.call('hdel', key, holder)
        return GIVEN
      end
    end
  end
end

local value = redis.call('hget', key, owner)
local given = value and given_to_a_waiter(key, owner, value, channel, publish, own)
if given == GIVEN then
  return GIVEN
end
if value then
  local receivers = free()
  return given or receivers
end
change_waiters(key, function(entries)
  local at = entry_of(entries, owner)
  return at and table.remove(entries, at)
end)
return nil
