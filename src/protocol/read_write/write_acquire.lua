-- write_acquire: takes the write side of a free lock, or returns how long it is still held.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- ARGV[1]  owner     field name, never used before
-- ARGV[2]  lease_ms  integer > 0
-- Returns  nil       acquired
--          integer   remaining lease of the holders in ms, -1 if their key has no expiry
-- Idempotent: a repeated call finds its own field and only extends the lease if needed.
-- After Redisson RedissonWriteLock.tryLockInnerAsync, except that leases do not add up.
local key, owner, lease_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local left_ms = redis.call('pttl', key)
if left_ms == -2 then
  redis.call('hset', key, 'mode', 'write', owner, 1)
  redis.call('pexpire', key, lease_ms)
  return nil
end
if redis.call('hexists', key, owner) == 0 then
  return left_ms
end
lengthen(key, lease_ms)
return nil
