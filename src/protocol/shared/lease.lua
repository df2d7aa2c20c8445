-- Makes a lease longer, never shorter, because a later call may have run before this one. The
-- condition GT, which is new in Redis 7.0, saves a command. It leaves a key without an expiry alone.
-- lease_ms: a number, or its text, which costs less for many keys.
local knows_gt, try = true, redis.pcall
local function lengthen(key, lease_ms)
  if knows_gt then
    local longer = try('pexpire', key, lease_ms, 'gt')
    if longer == 1 then
      return
    end
    knows_gt = longer == 0
  end
  if redis.call('pttl', key) < tonumber(lease_ms) then
    redis.call('pexpire', key, lease_ms)
  end
end

