-- lock_reenter: raises the count of a hold to a target, if the hold still exists.
-- KEYS[1]  hash      owner field -> holds, and waiters that stay as they are
-- ARGV[1]  owner     field name
-- ARGV[2]  lease_ms  integer > 0
-- ARGV[3]  holds     the count to reach
-- Returns  1         held
--          nil       the hold is gone
-- Idempotent: the count is a target, and the lease is never shortened.
local key, owner, lease_ms, holds = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local value = redis.call('hget', key, owner)
if not value then
  return nil
end
local now, waiters = string.match(value, '^(%d+)(.*)$')
if tonumber(now) < holds then
  redis.call('hset', key, owner, holds .. waiters)
end
lengthen(key, lease_ms)
return 1
