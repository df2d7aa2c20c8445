-- The descriptions of a lock's holders: the time of day in ms (-1 if this user may not ask for it),
-- then each owner and its text. Empty if there are none, or if this user may not read them. Anybody
-- may write to this key. Too many owners or too long a text were not written by this library, and
-- are ignored.
local MOST_DESCRIBED, MOST_BYTES_SAID = 64, 512
local function described(key)
  if not key or not may('hlen', key) or not may('hgetall', key) then
    return {}
  end
  local owners = redis.pcall('hlen', key)
  if type(owners) ~= 'number' or owners == 0 or owners > MOST_DESCRIBED then
    return {}
  end
  local parts = redis.pcall('hgetall', key)
  if parts.err then
    return {}
  end
  local told, now = pcall(now_ms)
  local said = { told and now or -1 }
  for i = 1, #parts, 2 do
    if #parts[i] + #parts[i + 1] <= MOST_BYTES_SAID then
      said[#said + 1] = parts[i]
      said[#said + 1] = parts[i + 1]
    end
  end
  return said
end
