-- read_renew: renews read holds whose field still exists.
-- KEYS[2i-1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2i]    string    expires with the i-th hold
-- ARGV[1]     lease_ms  integer; 0 only asks, and writes nothing
-- ARGV[i+1]   owner     field name in KEYS[2i-1]
-- Returns     array: how many are there, and the number i of each that is gone
-- Idempotent. After Redisson ReadLockTask. No lease is shortened: neither that of another hold, nor
-- one that was extended while this call was in flight.
local lease_ms, renewed = tonumber(ARGV[1]), { 0 }
for i = 1, #KEYS / 2 do
  local key, own_key = KEYS[2 * i - 1], KEYS[2 * i]
  if redis.call('hexists', key, ARGV[i + 1]) == 1 then
    -- A full server accepts PEXPIRE, and after that SET as well.
    if is_shorter(redis.call('pttl', own_key), lease_ms)
      and redis.call('pexpire', own_key, lease_ms) == 0 then
      redis.call('set', own_key, 1, 'px', lease_ms)
    end
    lengthen(key, lease_ms)
    renewed[1] = renewed[1] + 1
  else
    renewed[#renewed + 1] = i
  end
end
return renewed
