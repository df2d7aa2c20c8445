-- lock_renew: renews holds whose field still exists.
-- KEYS[1..n]  hash      owner field -> holds; for a read/write lock also its mode
-- ARGV[1]     lease_ms  integer; 0 only asks, and writes nothing
-- ARGV[i+1]   owner     field name in KEYS[i]
-- Returns     array: how many are there, and the number i of each that is gone
-- Idempotent. A lost lock is never resurrected. No lease is shortened, because it may have been
-- extended while this call was in flight. After Redisson LockTask.
-- A client with many holds makes Redis work for nothing else, so globals are looked up once.
local call, lease_ms, there, renewed = redis.call, ARGV[1], 0, { 0 }
for i, key in ipairs(KEYS) do
  if call('hexists', key, ARGV[i + 1]) == 1 then
    lengthen(key, lease_ms)
    there = there + 1
  else
    renewed[#renewed + 1] = i
  end
end
renewed[1] = there
return renewed
