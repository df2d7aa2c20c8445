-- permit_expire: makes a semaphore and all its permits expire.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      id -> epoch ms until which it is held
-- KEYS[3]  string    the limit that was applied last
-- ARGV[1]  life_ms   integer > 0
-- Returns  1 if there is one, else 0
-- Idempotent, except that a repeated call counts from a later moment.
-- After Redisson RedissonPermitExpirableSemaphore.expireAsync.
redis.call('pexpire', KEYS[2], ARGV[1])
redis.call('pexpire', KEYS[3], ARGV[1])
return redis.call('pexpire', KEYS[1], ARGV[1])
