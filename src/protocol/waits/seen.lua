-- waits_seen: returns what the long waiters of all clients hold and wait for.
-- KEYS[1]  hash      client -> until when in ms, a line feed, and its waits
-- ARGV[1]  most      integer > 0, how many clients are read
-- Returns  array     each client and its waits. Those of dead clients are left out.
-- Anybody may write to this key. Too many clients were not written by this library, and are ignored.
local key, now, found = KEYS[1], now_ms(), {}
if redis.call('hlen', key) > tonumber(ARGV[1]) then
  return found
end
local parts = redis.call('hgetall', key)
for i = 1, #parts, 2 do
  local kept_until, waits = string.match(parts[i + 1], '^(%d+)\n(.*)$')
  if kept_until and tonumber(kept_until) >= now then
    found[#found + 1] = parts[i]
    found[#found + 1] = waits
  end
end
return found
