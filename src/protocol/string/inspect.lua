-- string_inspect: who holds a lock, for how long, for what.
-- KEYS[1]  string     the owner's token
-- ARGV[1]  described  the key of what is said of holders, if there can be one
-- Returns  array      remaining lease in ms (-1 none, -2 free), what is said of its holder, then the token and 1
local held = redis.call('get', KEYS[1])
if not held then
  return { -2, {} }
end
return { redis.call('pttl', KEYS[1]), described(ARGV[1]), held, '1' }
