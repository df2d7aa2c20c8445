-- lock_waiters: returns who waits for a lock.
-- KEYS[1]  any type  the lock
-- KEYS[2]  list      for a fair lock: waiting owners, the next one first
-- KEYS[3]  zset      for a fair lock: owner -> epoch ms until which its place is kept
-- ARGV[1]  numsub    NUMSUB or SHARDNUMSUB
-- ARGV[2]  channel   the channel of its waiters, if they share one
-- ARGV[3]  most      integer > 0, how many owners are returned at most
-- Returns  array     number of listening clients, -1 if unknown; then the owners with a place, in order
local found = { ARGV[2] ~= '' and listening(ARGV[1], ARGV[2]) or -1 }
if KEYS[2] then
  local now = now_ms()
  for _, owner in ipairs(redis.call('lrange', KEYS[2], 0, ARGV[3] - 1)) do
    if tonumber(redis.call('zscore', KEYS[3], owner) or 0) > now then
      found[#found + 1] = owner
    end
  end
end
return found
