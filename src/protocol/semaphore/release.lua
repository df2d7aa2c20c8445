-- semaphore_release: gives the permits of a hold back and publishes how many are available.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  hold      field name that ends with :permits
-- Returns  nil       no such hold
--          integer   released; how many subscribers received the message
-- Idempotent: a field is never used again. A deleted semaphore is not created again.
if redis.call('zrem', KEYS[2], ARGV[3]) == 0 then
  return nil
end
return give_back(KEYS[1], permits_of(ARGV[3]), ARGV[1], ARGV[2])
