-- semaphore_force_release: gives the permits of one owner back by force.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  hold      field name that ends with :permits
-- ARGV[4]  note      who frees it and why, each on a line, for the holder
-- Returns  1 if they were given back, 0 if the owner holds none
-- Idempotent: a field is never used again. A deleted semaphore is not created again.
if redis.call('zrem', KEYS[2], ARGV[3]) == 0 then
  return 0
end
give_back(KEYS[1], permits_of(ARGV[3]), ARGV[1], ARGV[2])
tell_clients({ ARGV[3] }, KEYS[1], ARGV[4])
return 1
