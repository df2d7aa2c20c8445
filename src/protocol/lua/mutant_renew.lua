-- mutant_renew: lock_renew with a fault, for the tests that must find it: whoever holds a key, it
-- is extended, and a key that is gone is made again.
-- KEYS[1..n]  hash            owner field -> holds
-- ARGV[2i-1]  owner           field name in KEYS[i]
-- ARGV[2i]    lease_ms        integer > 0
-- Returns     array of 1
local renewed = {}
for i, key in ipairs(KEYS) do
  redis.call('hset', key, ARGV[2 * i - 1], 1)
  redis.call('pexpire', key, ARGV[2 * i])
  renewed[i] = 1
end
return renewed
