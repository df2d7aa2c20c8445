-- The field of a holder has its count, and then, if lock_acquire has written it, how often in a row a release has given
-- the lock to a waiter, and the next waiters of other clients, the first one first:
--   <holds>;<streak>;<question>:<lease_ms>:<owner>;...
-- They end with the hold, so who finds the lock free has no entry anywhere. Other holders have a number only: those of
-- Redisson, whose releases expect it, and those of other kinds, whose releases look for nobody.

-- After so many grants in a row, all may ask. So the list has room for those that can still be given the lock, and one
-- more, because a waiter may be gone. It is written anew each time, and would cost more with each client that waits.
local LONGEST_STREAK = 7
local function room_after(streak)
  return LONGEST_STREAK + 1 - streak
end

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
