-- read_renew: renews read holds whose field still exists.
-- KEYS[2i-1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2i]    string    expires with the i-th hold
-- ARGV[2i-1]  owner     field name in KEYS[2i-1]
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where the hold is gone
-- Idempotent. After Redisson ReadLockTask. No lease is shortened: neither that of another hold, nor
-- one that was extended while this call was in flight.
local renewed = {}
for i = 1, #KEYS, 2 do
  local key, owner, lease_ms = KEYS[i], ARGV[i], tonumber(ARGV[i + 1])
  local there = redis.call('hexists', key, owner)
  if there == 1 then
    -- A full server accepts PEXPIRE, and after that SET as well.
    if redis.call('pttl', KEYS[i + 1]) < lease_ms
      and redis.call('pexpire', KEYS[i + 1], lease_ms) == 0 then
      redis.call('set', KEYS[i + 1], 1, 'px', lease_ms)
    end
    lengthen(key, lease_ms)
  end
  renewed[(i + 1) / 2] = there
end
return renewed
