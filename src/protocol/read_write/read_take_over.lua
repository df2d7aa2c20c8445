-- read_take_over: passes a read hold to another owner, with a new lease.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    expires with the hold that ends
-- KEYS[3]  string    expires with the new hold
-- ARGV[1]  from      field name of the hold that ends
-- ARGV[2]  owner     field name of the new hold, never used before
-- ARGV[3]  lease_ms  integer > 0
-- Returns  1         taken over
--          nil       neither hold exists
-- Idempotent: a repeated call finds its own field, and shortens no lease.
local key, from, owner, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('hexists', key, owner) == 0 then
  if redis.call('hdel', key, from) == 0 then
    return nil
  end
  redis.call('del', KEYS[2])
  redis.call('hset', key, owner, 1)
end
if is_shorter(redis.call('pttl', KEYS[3]), lease_ms) then
  redis.call('set', KEYS[3], 1, 'px', lease_ms)
end
lengthen(key, lease_ms)
return 1
