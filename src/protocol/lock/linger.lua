-- lock_linger: leaves a hold without guards to its expiry, and publishes that the expiry has
-- changed.
-- KEYS[1]  hash      owner field -> holds
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- ARGV[4]  rest_ms   the lock is free after this time, integer > 0
-- Returns  nil       no such hold
--          integer   done; how many subscribers received the message (0 also if PUBLISH was refused)
-- Idempotent: a field is never used again, and a repeated call brings the time that is left by
-- then.
-- To Redisson the lock looks like one whose lease is not renewed: its waiters ask when the message
-- comes, and sleep until the new expiry.
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
  return nil
end
redis.call('pexpire', KEYS[1], ARGV[4])
local receivers = redis.pcall(ARGV[2], ARGV[1], '0')
return type(receivers) == 'number' and receivers or 0
