-- What is said of the holders of a lock: the time of day in ms, -1 if this user may not ask for it, then each
-- owner and its text; nothing if nothing is said, or if this user may not read it.
local function described(key)
  if not key or not may('hgetall', key) then
    return {}
  end
  local said = redis.pcall('hgetall', key)
  if said.err or #said == 0 then
    return {}
  end
  local told, now = pcall(now_ms)
  table.insert(said, 1, told and now or -1)
  return said
end
