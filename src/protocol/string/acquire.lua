-- string_acquire: takes a free lock of the SET NX PX kind, or returns how long it is still held.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  owner     token, never used before
-- ARGV[2]  lease_ms  integer > 0
-- Returns  nil       acquired
--          integer   remaining lease of the holder in ms, -1 if its key has no expiry
-- Idempotent: a repeated call finds its own token and only extends the lease if needed.
-- Follows the pattern in the documentation of SET.
local key, owner, lease_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local held = redis.call('get', key)
if not held then
  redis.call('set', key, owner, 'px', lease_ms)
  return nil
end
if held ~= owner then
  return redis.call('pttl', key)
end
lengthen(key, lease_ms)
return nil
