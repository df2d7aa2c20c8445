-- read_acquire: takes the read side unless another owner writes.
-- KEYS[1]  hash      mode -> read or write; owner field -> holds
-- KEYS[2]  string    expires with this hold
-- ARGV[1]  owner     field name, never used before
-- ARGV[2]  lease_ms  integer > 0
-- ARGV[3]  writer    field name of the write hold of the same owner, or an empty text
-- Returns  nil       acquired
--          integer   remaining lease of the holders in ms, -1 if their key has no expiry
-- Idempotent: a repeated call finds its own field, and shortens no lease.
-- After Redisson RedissonReadLock.tryLockInnerAsync. Here each read hold has its own field.
local key, lives, owner, lease_ms, writer = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mode = redis.call('hget', key, 'mode')
local left_ms = redis.call('pttl', key)
if not mode then
  if left_ms ~= -2 then
    return left_ms -- a lock of another kind
  end
  redis.call('hset', key, 'mode', 'read')
elseif mode ~= 'read' and redis.call('hexists', key, owner) == 0 then
  if writer == '' or redis.call('hexists', key, writer) == 0 then
    return left_ms
  end
end
redis.call('hset', key, owner, 1)
if is_shorter(redis.call('pttl', lives), lease_ms) then
  redis.call('set', lives, 1, 'px', lease_ms)
end
if is_shorter(left_ms, lease_ms) then
  redis.call('pexpire', key, lease_ms)
end
return nil
