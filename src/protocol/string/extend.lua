-- string_extend: extends a hold, if it still exists.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  owner     token
-- ARGV[2]  lease_ms  integer > 0
-- Returns  1         held
--          nil       the hold is gone
-- Idempotent. The lease is never shortened.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return nil
end
lengthen(KEYS[1], ARGV[2])
return 1
