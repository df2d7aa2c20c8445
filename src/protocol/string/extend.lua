-- string_extend: extends a hold, if it still exists.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  owner     token
-- ARGV[2]  lease_ms  integer > 0
-- Returns  1         held
--          nil       the hold is gone
-- Idempotent. The lease is never shortened. A key without expiry gets one, because its owner asked
-- for it.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return nil
end
local lease_ms = tonumber(ARGV[2])
lengthen(KEYS[1], lease_ms)
return 1
