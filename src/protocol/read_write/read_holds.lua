-- The beginning of the releases of a read/write lock: whether read holds are left, and how long
-- they last. A reader all of whose holds have expired is removed from the hash, where it would
-- otherwise stay for as long as others read. More holds than any reader has are not counted to the
-- end.
local MOST_HOLDS = 10000
-- With more readers than FEW, only SOME of them are looked at first, unless that is inconclusive.
-- Otherwise thousands of readers would make each release block Redis for milliseconds.
local FEW, SOME = 16, 8

-- Some servers refuse keys that the caller has not declared. A reader whose lifetime cannot be read counts as alive.
-- Its keys are in the reply, so that read_tidy can declare them, but not more than MOST_ASKED in one reply. A key without
-- an expiry counts as alive, too.
local UNKNOWN_MS, MOST_ASKED = math.huge, 64
local unread = {}

local function lifetime_ms(lives)
  local left_ms = redis.pcall('pttl', lives)
  if type(left_ms) == 'number' then
    return left_ms == -1 and UNKNOWN_MS or left_ms
  end
  if #unread < MOST_ASKED then
    unread[#unread + 1] = lives
  end
  return UNKNOWN_MS
end

local function longest_of(key, prefix, fields)
  local longest_ms, is_sure = 0, false
  unread = {}
  for i = 1, #fields, 2 do
    local owner, holds = fields[i], fields[i] ~= 'mode' and tonumber(fields[i + 1]) or 0
    local own_ms = 0
    for hold = math.min(holds, MOST_HOLDS), 1, -1 do
      own_ms = math.max(own_ms, lifetime_ms(prefix .. ':' .. owner .. ':rwlock_timeout:' .. hold))
    end
    if own_ms == 0 and holds >= 1 and holds <= MOST_HOLDS then
      redis.call('hdel', key, owner)
    end
    longest_ms = math.max(longest_ms, own_ms)
    is_sure = is_sure or own_ms > 0 and own_ms < UNKNOWN_MS
  end
  if is_sure then
    unread = {}
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
  if longest_ms < UNKNOWN_MS then
    -- If Redis refuses this, the expiry stays: too long is safe, and the hold has ended.
    redis.pcall('pexpire', key, longest_ms)
  end
  return true
end

-- The reply of a release: how many subscribers received the message, and then the keys for read_tidy, if any.
local function receivers_of(message)
  local receivers = type(message) == 'number' and message or 0
  return #unread == 0 and receivers or { receivers, unpack(unread) }
end

