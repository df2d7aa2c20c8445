-- What the scripts of the permit-expirable semaphore begin with. An id travels as 32 hex digits, a
-- holder of several has them one after another; in Redis an id is 16 bytes, as Redisson's.
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

