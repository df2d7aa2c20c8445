-- Makes a lease longer, never shorter: a call may run after one that was sent later.
local function lengthen(key, lease_ms)
  if redis.call('pttl', key) < lease_ms then
    redis.call('pexpire', key, lease_ms)
  end
end

