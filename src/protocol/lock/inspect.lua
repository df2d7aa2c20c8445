-- lock_inspect: returns who holds a lock, how often, for how long, and for what.
-- KEYS[1]  hash       owner field -> holds
-- ARGV[1]  described  the key of the descriptions of holders, if there can be one. It is not declared, because
--                     not every user may read it. A server that refuses such keys shows no descriptions.
-- Returns  array      remaining lease in ms (-1 none, -2 free), the descriptions of the holders, then owner
--                     and count of each hold
local found = redis.call('hgetall', KEYS[1])
table.insert(found, 1, redis.call('pttl', KEYS[1]))
table.insert(found, 2, described(ARGV[1]))
return found
