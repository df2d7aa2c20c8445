-- string_inspect: returns who holds a lock, for how long, and for what.
-- KEYS[1]  string     the owner's token
-- ARGV[1]  described  the key of the descriptions of holders, if there can be one. It is not declared, because
--                     not every user may read it. A server that refuses such keys shows no descriptions.
-- Returns  array      remaining lease in ms (-1 none, -2 free), the description of its holder, the token, 1
local held = redis.call('get', KEYS[1])
if not held then
  return { -2, {} }
end
return { redis.call('pttl', KEYS[1]), described(ARGV[1]), held, '1' }
