-- fenced_acquire: takes a free lock and the next token, or returns how long the lock is still held.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  string    the last token
-- ARGV[1]  owner     field name, never used before
-- ARGV[2]  lease_ms  integer > 0
-- Returns  array     {token}: acquired; as text, because a Lua number is exact up to 2^53 only
--          integer   remaining lease of the holder in ms, -1 if its key has no expiry
-- Idempotent: a repeated call finds its own field, and while that exists, the last token belongs to
-- it.
-- After Redisson RedissonFencedLock, except that nested acquisitions keep the token of the
-- outermost one.
local key, counter, owner, lease_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local left_ms = redis.call('pttl', key)
if left_ms == -2 then
  redis.call('incr', counter)
  redis.call('hset', key, owner, 1)
  redis.call('pexpire', key, lease_ms)
  return { redis.call('get', counter) }
end
if redis.call('hexists', key, owner) == 0 then
  return left_ms
end
lengthen(key, lease_ms)
return { redis.call('get', counter) }
