-- read_force_release: ends the read holds of one owner by force; the last ones free the lock.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    the prefix of the keys of all read holds; not a key itself
-- KEYS[3]  string    expires with the first hold of the owner; a thread of Redisson may have others
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name
-- ARGV[4]  note      who frees it and why, each on a line, for the holder
-- If the server refuses undeclared keys, all other readers count as alive, and the keys of a thread's other holds stay
-- until they expire.
-- Returns  1 if they were ended, 0 if nobody holds the read side, -1 if only other owners hold it
local key, prefix, owner = KEYS[1], KEYS[2], ARGV[3]
if redis.call('hget', key, 'mode') ~= 'read' then
  return 0
end
local holds = redis.call('hget', key, owner)
if not holds then
  return -1
end
local ended_ms = 0
for hold = math.min(tonumber(holds) or 0, MOST_HOLDS), 1, -1 do
  local lives = prefix .. ':' .. owner .. ':rwlock_timeout:' .. hold
  local left_ms = redis.pcall('pttl', lives)
  ended_ms = math.max(ended_ms, type(left_ms) == 'number' and left_ms or 0)
  redis.pcall('del', lives)
end
redis.call('hdel', key, owner)
if not readers_left(key, prefix, ended_ms) then
  redis.call('del', key)
  redis.pcall(ARGV[2], ARGV[1], '0')
end
tell_clients({ owner }, key, ARGV[4])
return 1
