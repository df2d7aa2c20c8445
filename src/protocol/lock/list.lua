-- The rest of lock_acquire, for a waiter that wants to be listed beside the holder. After a message to all, everybody asks
-- again, and the quickest would always be the first. So who has asked more often goes first.
local function goes_before(entry, other)
  local questions = '^(%d+):'
  return (tonumber(string.match(entry, questions)) or 0) > (tonumber(string.match(other, questions)) or 0)
end

local is_listed = change_waiters(key, function(entries)
  local entry = waits .. ':' .. owner .. ';'
  local at = entry_of(entries, owner)
  if at then
    entries[at] = entry
    return true
  end
  at = #entries + 1
  while at > 1 and goes_before(entry, entries[at - 1]) do
    at = at - 1
  end
  table.insert(entries, at, entry)
  entries[MOST_WAITERS + 1] = nil
  return at <= MOST_WAITERS
end)
return is_listed and { left_ms, 1 } or left_ms
