-- The limit that acquisitions declare. Its key has the limit that was applied last. The number of
-- permits changes by the difference, so permits that are out stay counted, whoever has them.

-- Returns how many permits are available under a limit. A lower limit is applied at once, and a
-- higher one when it lets `wanted` permits out. So each change to a higher limit is one grant and one
-- message at most, also while acquisitions with different limits alternate.
local function available_within(name, holds, key, limit, wanted, channel, publish)
  local before = redis.call('get', name)
  local applied = tonumber(before and redis.call('get', key) or '')
  local available = tonumber(before or 0)
  -- Without an earlier limit, only the permits of known holders count as out.
  local change = tonumber(limit) - (applied or available + held_in(holds))
  local value = available + change
  local granted = value >= wanted
  if applied == tonumber(limit) or (before and change > 0 and not granted) then
    return value
  end
  -- A full server refuses the first write of a script, and no later one.
  redis.call('set', key, limit)
  redis.call('incrby', name, change)
  local ends_ms = redis.call('pttl', name)
  if ends_ms > 0 then
    redis.call('pexpire', key, ends_ms)
  end
  if change > 0 and granted and value > wanted then
    redis.pcall(publish, channel, value - wanted)
  end
  return value
end

-- Returns the limit that was applied last, if that many permits can never be available. For
-- acquisitions that declare none. The key is only given for several permits.
local function limit_below(key, wanted)
  local limit = key and tonumber(redis.call('get', key) or '')
  return limit and limit < wanted and limit
end

