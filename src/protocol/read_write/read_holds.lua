-- What the releases of the read/write lock begin with: whether read holds are left, and how long they
-- live. A reader of which no hold lives any more leaves the hash: it would stay there as long as others
-- read.
-- A number of holds that no reader has is not followed to its end.
local MOST_HOLDS = 10000
-- With more readers than FEW only SOME of them are looked at, unless these say too little: else
-- thousands of readers would cost each release milliseconds, in which Redis does nothing else.
local FEW, SOME = 16, 8

local function longest_of(key, prefix, fields)
  local longest_ms = 0
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

-- Whether read holds are left; then the hash lives as long as the longest of them. Of many readers it may
-- live longer than that: at most twice as long, or as long as a reader was given whose hold did not end
-- now.
-- ended_ms: how long the hold that ended now would have lived.
local function readers_left(key, prefix, ended_ms)
  if redis.call('hlen', key) > FEW then
    local left_ms = redis.call('pttl', key)
    local longest_ms = longest_of(key, prefix, redis.call('hrandfield', key, SOME, 'withvalues'))
    if longest_ms > 0 and left_ms > 0 and (2 * longest_ms >= left_ms or 2 * ended_ms < left_ms) then
      return true
    end
  end
  local longest_ms = longest_of(key, prefix, redis.call('hgetall', key))
  if longest_ms == 0 then
    return false
  end
  -- Refused, it stays: too long is safe, and the hold has ended.
  redis.pcall('pexpire', key, longest_ms)
  return true
end
