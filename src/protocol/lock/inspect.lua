-- lock_inspect: returns who holds a lock, how often, for how long, and for what.
-- KEYS[1]  hash       owner field -> holds
-- KEYS[2]  hash       ARGV[1], only where a server refuses keys that are not declared: not every user may read it
-- ARGV[1]  described  the key of the descriptions of holders, if there can be one
-- Returns  array      remaining lease in ms (-1 none, -2 free), the descriptions of the holders, then owner
--                     and count of each hold
local found = redis.call('hgetall', KEYS[1])
table.insert(found, 1, redis.call('pttl', KEYS[1]))
table.insert(found, 2, described(ARGV[1]))
return found
