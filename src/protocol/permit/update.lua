-- permit_update: gives a permit another lease from now on, longer or shorter.
-- KEYS[1]  zset      id -> epoch ms until which it is held
-- ARGV[1]  ids       id, 32 hex digits
-- ARGV[2]  lease_ms  integer > 0
-- Returns  1 if it is held, else 0
-- Idempotent, except that a repeated call counts from a later moment.
-- After Redisson RedissonPermitExpirableSemaphore.updateLeaseTimeAsync.
local held, id, now = KEYS[1], ids_of(ARGV[1])[1], now_ms()
if tonumber(redis.call('zscore', held, id) or 0) <= now then
  return 0
end
redis.call('zadd', held, string.format('%.0f', now + tonumber(ARGV[2])), id)
return 1
