-- fenced_set: sets a value unless a holder with a later token was there.
-- KEYS[1]  string    the value
-- KEYS[2]  string    the highest token that was there
-- ARGV[1]  token     integer > 0
-- ARGV[2]  value     any text
-- ARGV[3]  keep_ms   integer >= 0, 0: no expiry
-- Returns  1 if it was set, 0 if the token is older than the last one
-- Idempotent: the same token may set again.
-- After M. Kleppmann, "How to do distributed locking" (2016): the resource checks the token.
local value, fence, token, keep_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[3])
local admitted = admits(fence, token)
if admitted ~= 1 then
  return admitted
end
redis.call('set', fence, token)
redis.call('set', value, ARGV[2])
if keep_ms > 0 then
  redis.call('pexpire', fence, keep_ms)
  redis.call('pexpire', value, keep_ms)
end
return 1
