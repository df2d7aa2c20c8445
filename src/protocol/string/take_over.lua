-- string_take_over: passes a hold on to the next owner of the same client, with a lease of its own.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  from      token of the hold that ends
-- ARGV[2]  owner     token of the new hold, never used before
-- ARGV[3]  lease_ms  integer > 0
-- Returns  1         taken over
--          nil       neither hold is there
-- Idempotent: a repeated call finds its own token, and shortens no lease.
-- Between the two holds the lock is never free.
local held = redis.call('get', KEYS[1])
if held == ARGV[2] then
  lengthen(KEYS[1], tonumber(ARGV[3]))
  return 1
end
if held ~= ARGV[1] then
  return nil
end
redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])
return 1
