-- Makes a lease longer, never shorter, because a later call may have run before this one.
local function lengthen(key, lease_ms)
  if redis.call('pttl', key) < lease_ms then
    redis.call('pexpire', key, lease_ms)
  end
end

