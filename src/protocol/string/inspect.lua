-- string_inspect: who holds a lock, for how long.
-- KEYS[1]  string  the owner's token
-- Returns  array   remaining lease in ms (-1 none, -2 free), then the token and 1
local held = redis.call('get', KEYS[1])
if not held then
  return { -2 }
end
return { redis.call('pttl', KEYS[1]), held, '1' }
