-- read_renew: gives read holds a new lease, each only where its field is still there.
-- KEYS[2i-1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2i]    string    lives as long as the i-th hold
-- ARGV[2i-1]  owner     field name in KEYS[2i-1]
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where the hold is gone
-- Idempotent. After Redisson ReadLockTask; no lease is shortened, neither that of other holds nor one
-- that was extended while this call was on its way.
local renewed = {}
for i = 1, #KEYS, 2 do
  local key, owner, lease_ms = KEYS[i], ARGV[i], tonumber(ARGV[i + 1])
  local there = redis.call('hexists', key, owner)
  if there == 1 then
    -- A full server lets PEXPIRE through; and SET, once it has.
    if redis.call('pttl', KEYS[i + 1]) < lease_ms
      and redis.call('pexpire', KEYS[i + 1], lease_ms) == 0 then
      redis.call('set', KEYS[i + 1], 1, 'px', lease_ms)
    end
    lengthen(key, lease_ms)
  end
  renewed[(i + 1) / 2] = there
end
return renewed
