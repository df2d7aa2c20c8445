-- string_force_release: frees a lock, whoever holds it, or only if one owner holds it.
-- KEYS[1]  string    the owner's token
-- ARGV[1]  owner     the token, or an empty text for any owner
-- ARGV[2]  note      who frees it and why, each on a line, for the holder
-- Returns  1 if it was freed, 0 if nobody held it, -1 if another owner holds it
-- Data of another type is refused, not deleted.
local key, owner = KEYS[1], ARGV[1]
local held = redis.call('get', key)
if not held then
  return 0
end
if owner ~= '' and held ~= owner then
  return -1
end
redis.call('del', key)
tell_clients({ held }, key, ARGV[2])
return 1
