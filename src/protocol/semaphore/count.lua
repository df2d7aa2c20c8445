-- semaphore_count: counts the permits, after those of dead holders have come back.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  array     available permits, held permits
-- Idempotent. Redisson keeps no holds, so the permits that it holds are not counted.
purge(KEYS[1], KEYS[2], ARGV[1], ARGV[2], now_ms())
return { tonumber(redis.call('get', KEYS[1]) or 0), held_in(KEYS[2]) }
