-- lock_take_over: passes a hold to another owner, with a new lease. A key without an expiry gets none.
-- KEYS[1]  hash      owner field -> holds
-- ARGV[1]  from      field name of the hold that ends
-- ARGV[2]  owner     field name of the new hold, never used before
-- ARGV[3]  lease_ms  integer > 0
-- Returns  1         taken over
--          nil       neither hold exists
-- Idempotent: a repeated call finds its own field, and shortens no lease.
-- Between the two holds the lock is never free.
local key, from, owner, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local value = redis.call('hget', key, from)
if value then
  -- First, because a full server refuses HSET until the script has written something.
  if redis.call('pttl', key) ~= -1 then
    redis.call('pexpire', key, lease_ms)
  end
  redis.call('hset', key, owner, (string.gsub(value, '^%d+', '1')))
  redis.call('hdel', key, from)
  return 1
end
if redis.call('hexists', key, owner) == 0 then
  return nil
end
lengthen(key, lease_ms)
return 1
