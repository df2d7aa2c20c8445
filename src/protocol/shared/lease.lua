-- Leases become longer here, never shorter, because a later call may have run before this one. A key without an expiry, as
-- PERSIST leaves it, has the longest lease and stays as it is.

-- True if less is left than the wanted lease. A verification wants 0: it never writes.
-- left_ms: the reply to PTTL.
local function is_shorter(left_ms, lease_ms)
  return left_ms ~= -1 and math.max(left_ms, 0) < lease_ms
end

-- The condition GT, which is new in Redis 7.0, saves a command. Like is_shorter, it takes no expiry for the latest.
-- lease_ms: a number, or its text, which costs less for many keys.
local knows_gt, try = true, redis.pcall
local function lengthen(key, lease_ms)
  if tonumber(lease_ms) == 0 then
    return
  end
  if knows_gt then
    knows_gt = type(try('pexpire', key, lease_ms, 'gt')) == 'number'
  end
  if not knows_gt and is_shorter(redis.call('pttl', key), tonumber(lease_ms)) then
    redis.call('pexpire', key, lease_ms)
  end
end

