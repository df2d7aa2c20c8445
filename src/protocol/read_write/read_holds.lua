-- The beginning of the releases of a read/write lock: whether read holds are left, and how long
-- they last. A reader all of whose holds have expired is removed from the hash, where it would
-- otherwise stay for as long as others read. More holds than any reader has are not counted to the
-- end.
local MOST_HOLDS = 10000
-- With more readers than FEW, only SOME of them are looked at first, unless that is inconclusive.
-- Otherwise thousands of readers would make each release block Redis for milliseconds.
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

-- Whether read holds are left. If so, the hash gets the expiry of the longest of them. With many
-- readers it may expire later: after at most twice that time, or after the longest lease of a
-- reader whose hold did not end now. ended_ms: how long the hold that ended now would have lasted.
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
  -- If Redis refuses this, the expiry stays: too long is safe, and the hold has ended.
  redis.pcall('pexpire', key, longest_ms)
  return true
end
