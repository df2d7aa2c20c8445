-- The beginning of the semaphore scripts: returns the permits of holders whose lease has ended. A
-- hold is a field that ends with the number of its permits.
local DEAD_AT_ONCE = 1000

local function permits_of(owner)
  return tonumber(string.match(owner, ':(%d+)$') or 0)
end

local function held_in(holds)
  local held = 0
  for _, owner in ipairs(redis.call('zrange', holds, 0, -1)) do
    held = held + permits_of(owner)
  end
  return held
end

local function purge(name, holds, channel, publish, now)
  local back = 0
  repeat
    local dead = redis.call('zrangebyscore', holds, '-inf', now, 'limit', 0, DEAD_AT_ONCE)
    for _, owner in ipairs(dead) do
      back = back + permits_of(owner)
    end
    if #dead > 0 then
      redis.call('zrem', holds, unpack(dead))
    end
  until #dead < DEAD_AT_ONCE
  give_back(name, back, channel, publish)
end

