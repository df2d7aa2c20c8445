-- lock_force_release: frees a lock, whoever holds it, or only if one owner holds it.
-- KEYS[1]  hash      owner field -> holds
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  owner     field name, or an empty text for any owner
-- ARGV[4]  note      who frees it and why, each on a line, for the holder
-- Returns  1 if it was freed, 0 if nobody held it, -1 if another owner holds it
-- Data of another type is refused, not deleted.
-- After Redisson RedissonLock.forceUnlockAsync.
local key, owner = KEYS[1], ARGV[3]
local owners = redis.call('hgetall', key)
if #owners == 0 then
  return 0
end
if owner ~= '' and redis.call('hexists', key, owner) == 0 then
  return -1
end
redis.call('del', key)
redis.pcall(ARGV[2], ARGV[1], '0')
tell_clients(owners, key, ARGV[4])
return 1
