-- write_linger: leaves a write hold without guards to its expiry, and publishes that the expiry has
-- changed.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    the prefix of the keys of all read holds; not a key itself
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- ARGV[4]  rest_ms   the write hold ends after this time, integer > 0
-- Returns  nil       no such hold
--          integer   done; how many subscribers received the message (0 also if PUBLISH was refused)
-- Idempotent: a field is never used again, and a repeated call brings the time that is left by
-- then.
-- Read holds of the same owner keep their leases. The hash expires with the longest of them, and so
-- does the writer. If the server refuses to read their undeclared keys, the hash keeps a longer expiry.
local key, owner, rest_ms = KEYS[1], ARGV[3], tonumber(ARGV[4])
local holds = redis.call('hget', key, owner)
if not holds then
  return nil
end
local lease_ms = redis.call('pttl', key)
-- It is no reader that died.
redis.call('hdel', key, owner)
local reads = readers_left(key, KEYS[2], lease_ms)
redis.call('hset', key, owner, holds)
if not reads or redis.call('pttl', key) < rest_ms then
  redis.call('pexpire', key, rest_ms)
end
local receivers = redis.pcall(ARGV[2], ARGV[1], '1')
return type(receivers) == 'number' and receivers or 0
