-- permit_expire: lets a semaphore end after a time, with all its permits.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      id -> epoch ms until which it is held
-- ARGV[1]  life_ms   integer > 0
-- Returns  1 if there is one, else 0
-- Idempotent but for the moment from which it counts.
-- After Redisson RedissonPermitExpirableSemaphore.expireAsync.
redis.call('pexpire', KEYS[2], ARGV[1])
return redis.call('pexpire', KEYS[1], ARGV[1])
