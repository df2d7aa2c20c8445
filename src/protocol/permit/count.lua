-- permit_count: counts the permits, after expired ones have come back.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      id -> epoch ms until which it is held
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  array     available permits, held permits
-- Idempotent.
purge(KEYS[1], KEYS[2], ARGV[1], ARGV[2], now_ms())
return { tonumber(redis.call('get', KEYS[1]) or 0), held_in(KEYS[2]) }
