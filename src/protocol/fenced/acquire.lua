-- fenced_acquire: takes a free lock and the next token, or says how long it is still held.
-- KEYS[1]  hash      owner field -> holds
-- KEYS[2]  string    the last token
-- ARGV[1]  owner     field name, never used before
-- ARGV[2]  lease_ms  integer > 0
-- Returns  array     {token}: acquired; as text, as a number of Lua is exact to 2^53 only
--          integer   remaining lease of the holder in ms, -1 if its key has no expiry
-- Idempotent: a repeated call finds its own field, and while it is there the last token is its own.
-- After Redisson RedissonFencedLock; a token is for one outermost acquisition, not for each nested one.
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
if left_ms < lease_ms then
  redis.call('pexpire', key, lease_ms)
end
return { redis.call('get', counter) }
