-- string_linger: leaves a token whose guards are gone to its expiry.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  owner     token
-- ARGV[2]  rest_ms   after this the lock is free, integer > 0
-- Returns  nil       no such hold
--          0         left
-- Idempotent: a token is never used again, and a repeated call brings what is left by then.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return nil
end
redis.call('pexpire', KEYS[1], ARGV[2])
return 0
