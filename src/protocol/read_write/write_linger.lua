-- write_linger: leaves a write hold whose guards are gone to its expiry, and publishes that there is another one.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    what the keys of all read holds begin with; no key itself
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- ARGV[4]  rest_ms   after this the write hold is over, integer > 0
-- Returns  nil       no such hold
--          integer   left; how many subscribers received the message (0 also if PUBLISH was refused)
-- Idempotent: a field is never used again, and a repeated call brings what is left by then.
-- Read holds of its owner keep their leases: the hash lives as long as the longest of them, and the writer in it.
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
