-- key_free: frees a lock at a key whose name is no text, if one owner holds it. No client of this library or of Redisson
-- has such a name, so nobody listens for the release.
-- KEYS[1]  any       a hash of owner field -> holds, or a string that is the owner's token
-- ARGV[1]  owner     field name or token; an empty text for any token
-- Returns  1 if it was freed, 0 if nobody held it, -1 if another owner holds it
-- Data of another type is refused, not deleted. The other readers keep the lock, and reads within a write end with it.
local key, owner = KEYS[1], ARGV[1]
local kind = type_of(key)
if kind == 'none' then
  return 0
end
if kind == 'hash' then
  if redis.call('hdel', key, owner) == 0 then
    return -1
  end
  local mode = redis.call('hget', key, 'mode')
  if mode == 'write' or redis.call('hlen', key) == (mode and 1 or 0) then
    redis.call('del', key)
  end
  return 1
end
local held = redis.call('get', key)
if owner ~= '' and held ~= owner then
  return -1
end
redis.call('del', key)
return 1
