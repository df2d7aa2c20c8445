-- permit_count: how many permits there are, after those that expired came back.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      id -> epoch ms until which it is held
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- Returns  array     permits that are available, permits that are held
-- Idempotent.
purge(KEYS[1], KEYS[2], ARGV[1], ARGV[2], now_ms())
return { tonumber(redis.call('get', KEYS[1]) or 0), redis.call('zcard', KEYS[2]) }
