-- string_renew: renews holds whose token is still there.
-- KEYS[1..n]  string    the owner's token
-- ARGV[2i-1]  owner     token in KEYS[i]
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where the hold is gone
-- Idempotent. A lost lock is never resurrected. No lease is shortened, because it may have been
-- extended while this call was in flight.
local renewed = {}
for i, key in ipairs(KEYS) do
  renewed[i] = 0
  if redis.call('get', key) == ARGV[2 * i - 1] then
    renewed[i] = 1
    lengthen(key, ARGV[2 * i])
  end
end
return renewed
