-- locks_scan: one step of a search for locks.
-- It names no keys, because it finds them. Where a server refuses that, SCAN and lock_look do the same.
-- ARGV[1]  before    the prefix of the queue of a fair lock
-- ARGV[2]  token     the prefix of the counter of a fenced lock
-- ARGV[3]  said      the prefix of the descriptions of holders
-- ARGV[4]  numsub    NUMSUB or SHARDNUMSUB
-- ARGV[5]  holds     the prefix of the holds of a semaphore
-- ARGV[6]  limit     the prefix of the limit of a semaphore
-- ARGV[7]  cursor    0 at first
-- ARGV[8]  pattern   of names, as for SCAN
-- ARGV[9]  count     integer > 0, how many keys one step visits
-- Returns  array     the next cursor; then for each lock what is known about it
local step = redis.call('scan', ARGV[7], 'match', ARGV[8], 'count', ARGV[9])
local found = { step[1] }
for _, name in ipairs(step[2]) do
  found[#found + 1] = lock_at(name) or nil
end
return found
