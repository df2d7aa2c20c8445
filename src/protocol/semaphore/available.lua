-- semaphore_available: returns how many permits are available, including those of dead holders.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  integer   available permits
-- Idempotent.
purge(KEYS[1], KEYS[2], ARGV[1], ARGV[2], now_ms())
return tonumber(redis.call('get', KEYS[1]) or 0)
