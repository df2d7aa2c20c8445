-- lock_look: returns what is known about one lock, which SCAN has found or a caller names.
-- KEYS[1]   any type  the lock
-- KEYS[2..] any type  its queue, counter, descriptions, holds and limit, and the leases of readers
-- ARGV[1]  before    the prefix of the queue of a fair lock
-- ARGV[2]  token     the prefix of the counter of a fenced lock
-- ARGV[3]  said      the prefix of the descriptions of holders
-- ARGV[4]  numsub    NUMSUB or SHARDNUMSUB
-- ARGV[5]  holds     the prefix of the holds of a semaphore
-- ARGV[6]  limit     the prefix of the limit of a semaphore
-- ARGV[7]  asks      integer: 1 to ask for keys, 0 if the caller does not come again
-- Returns  nil       no lock
--          array     what is known about it; or only an array of the leases of readers, which the server refuses to
--                    read unless the caller declares them
local lock = lock_at(KEYS[1])
if #unread > 0 and ARGV[7] == '1' then
  return { unread }
end
return lock
