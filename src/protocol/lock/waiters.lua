-- The field of a holder has its count, and then, if lock_acquire has written it, how often in a row a release has given
-- the lock to a waiter, and the waiters of other clients, the first one first:
--   <holds>;<streak>;<question>:<lease_ms>:<owner>;...
-- They end with the hold, so who finds the lock free has no entry anywhere. Other holders have a number only: those of
-- Redisson, whose releases expect it, and those of other kinds, whose releases look for nobody.
local MOST_WAITERS = 64

-- The count, the streak and the entries; nil beside another holder.
local function waiters_in(value)
  local holds, streak, rest = string.match(value, '^(%d+);(%d+);(.*)$')
  if not holds then
    return nil
  end
  local entries = {}
  for entry in string.gmatch(rest, '[^;]+;') do
    entries[#entries + 1] = entry
  end
  return holds, tonumber(streak), entries
end

local function value_of(holds, streak, entries)
  return holds .. ';' .. streak .. ';' .. table.concat(entries)
end

local function entry_of(entries, owner)
  for i, entry in ipairs(entries) do
    if string.sub(entry, -#owner - 2) == ':' .. owner .. ';' then
      return i
    end
  end
end

-- Lets `change` alter the entries beside the only holder. True if it did. A full server refuses to keep them. Then the
-- message to all wakes who is not listed, and who has left may be given the lock for a claim.
local function change_waiters(key, change)
  local fields = redis.call('hgetall', key)
  local holds, streak, entries = waiters_in(#fields == 2 and fields[2] or '')
  if not holds or not change(entries) then
    return false
  end
  local kept = redis.pcall('hset', key, fields[1], value_of(holds, streak, entries))
  return type(kept) == 'number'
end

