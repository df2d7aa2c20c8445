-- string_release: deletes a token, if it is still there.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  holds     how many nested holds remain; only the process counts them
-- ARGV[2]  owner     token
-- Returns  nil       no such hold
--          -1        still held
--          0         released
-- Idempotent: a token is never used again. This kind of lock has no channel, so nothing is
-- published.
if redis.call('get', KEYS[1]) ~= ARGV[2] then
  return nil
end
if tonumber(ARGV[1]) > 0 then
  return -1
end
redis.call('del', KEYS[1])
return 0
