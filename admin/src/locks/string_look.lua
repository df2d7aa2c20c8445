-- string_look: returns any string, which may be the lock of another program.
-- KEYS[1]  string  the lock
-- Returns  nil     there is none
--          array   its remaining lease in ms (-1 none), and its text
local text = redis.call('get', KEYS[1])
return text and { redis.call('pttl', KEYS[1]), text } or nil
