-- Whether a token may touch a resource: 1, or 0 if a later one was there.
-- Tokens are compared as text, because a Lua number is exact up to 2^53 only.
local function admits(fence, token)
  local last = redis.call('get', fence) or '0'
  if not string.match(last, '^%d+$') then
    return { err = 'ERR the highest token is not a whole number' }
  end
  local longer = #last - #token
  if longer > 0 or longer == 0 and last > token then
    return 0
  end
  return 1
end

