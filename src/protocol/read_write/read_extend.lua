-- read_extend: extends a read hold, if it still exists.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    expires with this hold
-- ARGV[1]  owner     field name
-- ARGV[2]  lease_ms  integer > 0
-- Returns  1         held
--          nil       the hold is gone
-- Idempotent. No lease is ever shortened.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local lease_ms = tonumber(ARGV[2])
if is_shorter(redis.call('pttl', KEYS[2]), lease_ms) then
  redis.call('set', KEYS[2], 1, 'px', lease_ms)
end
lengthen(KEYS[1], lease_ms)
return 1
