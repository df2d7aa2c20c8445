-- lock_inspect: who holds a lock, how often, for how long.
-- KEYS[1]  hash   owner field -> holds
-- Returns  array  remaining lease in ms (-1 none, -2 free), then owner and count of each hold
local found = redis.call('hgetall', KEYS[1])
table.insert(found, 1, redis.call('pttl', KEYS[1]))
return found
