-- A full server refuses ZADD, INCRBY and SET, unless the script has written before: then they have to be
-- let through. A renewal or a heartbeat adds nothing, and more permits let waiters go, so these begin with a
-- write that changes nothing.
local function let_writes_through(zset)
  redis.call('zrem', zset, '')
end

