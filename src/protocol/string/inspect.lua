-- string_inspect: returns who holds a lock, for how long, and for what.
-- KEYS[1]  string     the owner's token
-- KEYS[2]  hash       ARGV[1], only where a server refuses keys that are not declared: not every user may read it
-- ARGV[1]  described  the key of the descriptions of holders, if there can be one
-- Returns  array      remaining lease in ms (-1 none, -2 free), the description of its holder, the token, 1
local held = redis.call('get', KEYS[1])
if not held then
  return { -2, {} }
end
return { redis.call('pttl', KEYS[1]), described(ARGV[1]), held, '1' }
