-- What the releases of the read/write lock begin with: how long its read holds live. A reader of which
-- no hold lives any more leaves the hash: it would stay there as long as others read.
-- A number of holds that no reader has is not followed to its end.
local MOST_HOLDS = 10000

local function longest_read(key, prefix)
  local longest_ms = 0
  local fields = redis.call('hgetall', key)
  for i = 1, #fields, 2 do
    local owner, holds = fields[i], fields[i] ~= 'mode' and tonumber(fields[i + 1]) or 0
    local own_ms = 0
    for hold = math.min(holds, MOST_HOLDS), 1, -1 do
      local lives = prefix .. ':' .. owner .. ':rwlock_timeout:' .. hold
      own_ms = math.max(own_ms, redis.call('pttl', lives))
    end
    if own_ms == 0 and holds >= 1 and holds <= MOST_HOLDS then
      redis.call('hdel', key, owner)
    end
    longest_ms = math.max(longest_ms, own_ms)
  end
  return longest_ms
end
