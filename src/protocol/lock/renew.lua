-- lock_renew: renews holds whose field still exists.
-- KEYS[1..n]  hash      owner field -> holds; for a read/write lock also its mode
-- ARGV[2i-1]  owner     field name in KEYS[i]
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where the hold is gone
-- Idempotent. A lost lock is never resurrected. No lease is shortened, because it may have been
-- extended while this call was in flight. After Redisson LockTask.
local renewed = {}
for i, key in ipairs(KEYS) do
  renewed[i] = redis.call('hexists', key, ARGV[2 * i - 1])
  if renewed[i] == 1 then
    lengthen(key, ARGV[2 * i])
  end
end
return renewed
