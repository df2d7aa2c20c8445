-- lock_linger: leaves a hold whose guards are gone to its expiry, and publishes that there is another one.
-- KEYS[1]  hash      owner field -> holds
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- ARGV[4]  rest_ms   after this the lock is free, integer > 0
-- Returns  nil       no such hold
--          integer   left; how many subscribers received the message (0 also if PUBLISH was refused)
-- Idempotent: a field is never used again, and a repeated call brings what is left by then.
-- To Redisson it is a lock whose lease is not renewed: its waiters ask at the message, and sleep until the new expiry.
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
  return nil
end
redis.call('pexpire', KEYS[1], ARGV[4])
local receivers = redis.pcall(ARGV[2], ARGV[1], '0')
return type(receivers) == 'number' and receivers or 0
