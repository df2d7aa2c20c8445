-- semaphore_keep: forgets a hold and keeps its permits, which then never come back by the end of a
-- lease.
-- KEYS[1]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]  hold      field name that ends with :permits
-- Returns  1 if the hold was there, else 0
-- Idempotent in its effect.
return redis.call('zrem', KEYS[1], ARGV[1])
