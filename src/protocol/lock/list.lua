-- The rest of lock_acquire, for a waiter that wants to be listed beside the holder.
change_waiters(key, function(entries)
  local at = entry_of(entries, owner) or #entries + 1
  if at <= MOST_WAITERS then
    entries[at] = waits .. ':' .. owner .. ';'
    return true
  end
end)
return left_ms
