-- fenced_get: shuts earlier tokens out, then reads a value.
-- KEYS[1]  string    the value
-- KEYS[2]  string    the highest token that was there
-- ARGV[1]  token     integer > 0
-- ARGV[2]  keep_ms   integer >= 0, 0: no expiry
-- Returns  array     {value}, or {} if there is none
--          0 if the token is older than the last one
-- Idempotent: the same token may read again.
-- The highest token never expires before the value, and an expiry is never made shorter.
local value, fence, token, keep_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local admitted = admits(fence, token)
if admitted ~= 1 then
  return admitted
end
local found = redis.call('get', value)
local left_ms = redis.call('pttl', fence)
redis.call('set', fence, token)
local longest_ms = math.max(left_ms, keep_ms)
if left_ms ~= -1 and longest_ms > 0 then
  redis.call('pexpire', fence, longest_ms)
end
return { found or nil }
