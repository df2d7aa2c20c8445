-- string_renew: renews holds whose token is still there.
-- KEYS[1..n]  string    the owner's token
-- ARGV[1]     lease_ms  integer; 0 only asks, and writes nothing
-- ARGV[i+1]   owner     token in KEYS[i]
-- Returns     array: how many are there, and the number i of each that is gone
-- Idempotent. A lost lock is never resurrected. No lease is shortened, because it may have been
-- extended while this call was in flight.
local lease_ms, renewed = ARGV[1], { 0 }
for i, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[i + 1] then
    lengthen(key, lease_ms)
    renewed[1] = renewed[1] + 1
  else
    renewed[#renewed + 1] = i
  end
end
return renewed
