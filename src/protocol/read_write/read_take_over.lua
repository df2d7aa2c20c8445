-- read_take_over: passes a read hold on to another owner, with a lease of its own.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    lives as long as the hold that ends
-- KEYS[3]  string    lives as long as the new hold
-- ARGV[1]  from      field name of the hold that ends
-- ARGV[2]  owner     field name of the new hold, never used before
-- ARGV[3]  lease_ms  integer > 0
-- Returns  1         taken over
--          nil       neither hold is there
-- Idempotent: a repeated call finds its own field, and shortens no lease.
local key, from, owner, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('hexists', key, owner) == 0 then
  if redis.call('hdel', key, from) == 0 then
    return nil
  end
  redis.call('del', KEYS[2])
  redis.call('hset', key, owner, 1)
end
if redis.call('pttl', KEYS[3]) < lease_ms then
  redis.call('set', KEYS[3], 1, 'px', lease_ms)
end
lengthen(key, lease_ms)
return 1
