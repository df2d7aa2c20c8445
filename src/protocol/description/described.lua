-- What is said of the holders of a lock: the time of day in ms, then each owner and its text; nothing if
-- nothing is said, or if this user may not read it.
local function described(key)
  local said = key and redis.pcall('hgetall', key) or {}
  if said.err or #said == 0 then
    return {}
  end
  table.insert(said, 1, now_ms())
  return said
end
