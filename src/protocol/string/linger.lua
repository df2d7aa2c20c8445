-- string_linger: leaves a hold without guards to its expiry.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  owner     token
-- ARGV[2]  rest_ms   the lock is free after this time, integer > 0
-- Returns  nil       no such hold
--          0         done
-- Idempotent: a token is never used again, and a repeated call brings the time that is left by
-- then.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return nil
end
redis.call('pexpire', KEYS[1], ARGV[2])
return 0
