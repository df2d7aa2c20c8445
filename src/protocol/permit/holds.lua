-- The beginning of the permit scripts. In arguments an id is 32 hex digits, and several ids are
-- joined without a separator. In Redis an id is 16 bytes, as in Redisson.
local DEAD_AT_ONCE = 1000

local function ids_of(owner)
  local ids = {}
  for hex in string.gmatch(owner, string.rep('%x', 32)) do
    ids[#ids + 1] = string.gsub(hex, '%x%x', function(byte)
      return string.char(tonumber(byte, 16))
    end)
  end
  return ids
end

local function held_in(held)
  return redis.call('zcard', held)
end

local function purge(name, held, channel, publish, now)
  local back = 0
  repeat
    local dead = redis.call('zrangebyscore', held, 0, now, 'limit', 0, DEAD_AT_ONCE)
    if #dead > 0 then
      back = back + redis.call('zrem', held, unpack(dead))
    end
  until #dead < DEAD_AT_ONCE
  give_back(name, back, channel, publish)
end

