-- rw_force_release: frees one side of a read/write lock, whoever holds it; the write side also only if
-- one owner holds it.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  mode      read or write
-- ARGV[4]  owner     field name, or an empty text for any owner
-- ARGV[5]  note      who frees it and why, each on a line, for the holder
-- Returns  1 if that side was freed, 0 if nobody held it, -1 if another owner holds it
-- After Redisson RedissonReadLock.forceUnlockAsync and RedissonWriteLock.forceUnlockAsync.
local key, mode, owner = KEYS[1], ARGV[3], ARGV[4]
if redis.call('hget', key, 'mode') ~= mode then
  return 0
end
if owner ~= '' and redis.call('hexists', key, owner) == 0 then
  return -1
end
local owners = redis.call('hgetall', key)
redis.call('del', key)
redis.pcall(ARGV[2], ARGV[1], mode == 'write' and '1' or '0')
tell_clients(owners, key, ARGV[5])
return 1
