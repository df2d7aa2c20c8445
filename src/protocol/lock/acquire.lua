-- lock_acquire: takes a free lock, or returns how long it is still held.
-- KEYS[1]  hash      owner field -> holds and waiters, see waiters.lua
-- ARGV[1]  owner     field name, never used before
-- ARGV[2]  lease_ms  integer > 0
-- ARGV[3]  waits     optional: <question>:<lease_ms>. If the lock is held, a release may give it to this owner, for so
--                    long; the message names the question. An owner that asks again keeps its turn.
-- ARGV[4]  channel   with waits: where waiters listen
-- Returns  nil       acquired
--          integer   remaining lease of the holder in ms, -1 if its key has no expiry
--          array     that lease, and 1: the owner is listed
--          array     that lease, the streak, and how many clients listen (-1 unknown): the list is full, see waiters.lua
-- Idempotent: a repeated call finds its own field and only extends the lease if needed.
-- After Redisson RedissonLock.tryLockInnerAsync, except that the lease is never shortened.
local key, owner, lease_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local waits, channel = ARGV[3], ARGV[4]
local left_ms = redis.call('pttl', key)
if left_ms == -2 then
  redis.call('hset', key, owner, '1;0;')
  redis.call('pexpire', key, lease_ms)
  return nil
end
local fields = waits and redis.call('hgetall', key) or {}
local is_own = fields[1] == owner
if not is_own and #fields ~= 2 then
  is_own = redis.call('hexists', key, owner) == 1
end
if is_own then
  -- Writes even if the lease is as long, so that who waits for copies waits for one of the grant.
  if left_ms ~= -1 and left_ms <= lease_ms then
    redis.call('pexpire', key, lease_ms)
  end
  return nil
end
if not waits then
  return left_ms
end
