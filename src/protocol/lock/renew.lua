-- lock_renew: gives holds a new lease, each only where its field is still there.
-- KEYS[1..n]  hash      owner field -> holds; of a read/write lock with its mode
-- ARGV[2i-1]  owner     field name in KEYS[i]
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where the hold is gone
-- Idempotent. A lost lock is never resurrected, and no lease is shortened: it may have been extended
-- while this call was on its way. After Redisson LockTask.
local renewed = {}
for i, key in ipairs(KEYS) do
  local lease_ms = tonumber(ARGV[2 * i])
  renewed[i] = 0
  if redis.call('hexists', key, ARGV[2 * i - 1]) == 1 then
    renewed[i] = 1
    lengthen(key, lease_ms)
  end
end
return renewed
