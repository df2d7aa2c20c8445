-- fenced_take_over: passes a hold to another owner, with a new token. A key without an expiry gets none.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  string    the last token
-- ARGV[1]  from      field name of the hold that ends
-- ARGV[2]  owner     field name of the new hold, never used before
-- ARGV[3]  lease_ms  integer > 0
-- Returns  array     {token}: taken over; as text, because a Lua number is exact up to 2^53 only
--          nil       neither hold exists
-- Idempotent: a repeated call finds its own field, and shortens no lease.
-- Between the two holds the lock is never free.
local key, counter, from, owner, lease_ms = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('hexists', key, owner) == 1 then
  lengthen(key, lease_ms)
  return { redis.call('get', counter) }
end
if redis.call('hexists', key, from) == 0 then
  return nil
end
redis.call('incr', counter)
redis.call('hset', key, owner, 1)
redis.call('hdel', key, from)
if redis.call('pttl', key) ~= -1 then
  redis.call('pexpire', key, lease_ms)
end
return { redis.call('get', counter) }
