-- The rest of lock_release: one of the waiters that are listed beside the holder gets the lock, or all may ask.

-- How many clients listen without an entry; -1 if that is not known. Those of Redisson do. Beside a full list it is not asked
-- for: those that found no room listen, too, and let others go first.
local function unlisted(channel, streak, listed, own)
  if listed >= room_after(streak) then
    return 0
  end
  local count = listening('NUMSUB', channel)
  return count < 0 and count or math.max(count - own - listed, 0)
end

-- Those that are not listed have as large a share as those that are: all may ask after so many grants as there are entries
-- for each of them, but at least one and at most LONGEST_STREAK.
local function may_give(streak, listed, others)
  if streak == 0 or streak >= LONGEST_STREAK then
    return streak == 0
  end
  return others >= 0 and streak * others < listed
end

-- The message on the channel of the waiter's client. Returns how many subscribers received it.
local function tell(channel, question, lease_ms, owner)
  local client = string.match(owner, '^(%x+%-%x+%-%x+%-%x+%-%x+):')
  local message = table.concat({ '\0granted', question, lease_ms, owner, channel }, ' ')
  local heard = client and redis.pcall('publish', 'leasehold_client:{' .. client .. '}', message)
  return type(heard) == 'number' and heard or 0
end

-- A lease that begins here is short. The waiter renews it, or asks for its own. If the waiter is dead, nobody publishes
-- its end. So who is not listed hears of the grant, asks, and learns when that is. Waiters that can be listed look once a
-- second anyway, and ignore this message. To Redisson it says that all threads may ask.
local GIVEN, FOR_OTHERS = -2, -3
local function given_to_a_waiter(key, holder, value, channel, publish, own)
  local _, streak, entries = waiters_in(value)
  if not streak or not entries[1] then
    return nil
  end
  local others = unlisted(channel, streak, #entries, own)
  if not may_give(streak, #entries, others) then
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
        if others ~= 0 then
          redis.pcall(publish, channel, '1')
        end
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
-- The owner may wait beside the holder.
local fields = redis.call('hgetall', key)
local holds, streak, entries = waiters_in(#fields == 2 and fields[2] or '')
local at = holds and entry_of(entries, owner)
if at then
  table.remove(entries, at)
  redis.pcall('hset', key, fields[1], value_of(holds, streak, entries))
end
return nil
