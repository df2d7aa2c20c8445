-- fenced_set: sets a value unless a writer with a later token has set it.
-- KEYS[1]  string    the value
-- KEYS[2]  string    the highest token that has set it
-- ARGV[1]  token     integer > 0
-- ARGV[2]  value     any text
-- Returns  1 if it was set, 0 if the token is older than the last one
-- Idempotent: the same token may set again.
-- After M. Kleppmann, "How to do distributed locking" (2016): the resource checks the token.
-- Tokens are compared as text, because a Lua number is exact up to 2^53 only.
local token, last = ARGV[1], redis.call('get', KEYS[2]) or '0'
if not string.match(last, '^%d+$') then
  return { err = 'ERR the highest token is not a whole number' }
end
local longer = #last - #token
if longer > 0 or longer == 0 and last > token then
  return 0
end
redis.call('set', KEYS[2], token)
redis.call('set', KEYS[1], ARGV[2])
return 1
