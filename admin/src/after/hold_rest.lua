-- hold_rest: leaves a hold to its expiry, and publishes that the expiry has changed.
-- KEYS[1]  hash or string  owner field -> holds, or the owner's token
-- ARGV[1]  owner     field name or token
-- ARGV[2]  rest_ms   the lock is free after this time, integer > 0
-- ARGV[3]  kind      lock, write or string
-- ARGV[4]  channel   where waiters listen; those of a string lock poll
-- ARGV[5]  publish   PUBLISH or SPUBLISH
-- ARGV[6]  message   what a release publishes there
-- Returns  nil       no such hold
--          1         done
-- Idempotent: a field is never used again.
-- To Redisson the lock looks like one whose lease is not renewed: its waiters ask when the message comes, and sleep
-- until the new expiry.
local key, owner, rest_ms, kind = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
if kind == 'string' then
  if redis.call('get', key) ~= owner then
    return nil
  end
  redis.call('pexpire', key, rest_ms)
  return 1
end
if redis.call('hexists', key, owner) == 0 then
  return nil
end
-- Beside the mode and the writer are read holds that were taken under it. The hash must not expire before them.
local has_reads = kind == 'write' and redis.call('hlen', key) > 2
if not has_reads or redis.call('pttl', key) < rest_ms then
  redis.call('pexpire', key, rest_ms)
end
redis.pcall(ARGV[5], ARGV[4], ARGV[6])
return 1
