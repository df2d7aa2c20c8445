-- The rest of lock_acquire, for a waiter that wants to be listed beside the only holder.
local holds, streak, entries = waiters_in(#fields == 2 and fields[2] or '')
if not holds then
  return left_ms
end
local at = entry_of(entries, owner) or #entries + 1
if at > room_after(streak) then
  return { left_ms, streak, listening('NUMSUB', channel) }
end
entries[at] = waits .. ':' .. owner .. ';'
-- A full server refuses to keep it. Then the message to all wakes this waiter.
local kept = redis.pcall('hset', key, fields[1], value_of(holds, streak, entries))
return type(kept) == 'number' and { left_ms, 1 } or left_ms
