-- write_renew: gives write holds a new lease, each only where its field is still there.
-- KEYS[1..n]  hash      mode -> read or write; owner field -> holds
-- ARGV[2i-1]  owner     field name in KEYS[i]
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where the hold is gone
-- Idempotent. The lease of the owner's read holds is never shortened.
local renewed = {}
for i, key in ipairs(KEYS) do
  local lease_ms = tonumber(ARGV[2 * i])
  renewed[i] = redis.call('hexists', key, ARGV[2 * i - 1])
  if renewed[i] == 1 and redis.call('pttl', key) < lease_ms then
    redis.call('pexpire', key, lease_ms)
  end
end
return renewed
