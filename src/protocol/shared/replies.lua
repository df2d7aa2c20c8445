-- Requests that may be repeated. Each has a number, and a key that keeps its reply for a while. The
-- client reuses the key for a later request with a higher number.

-- The reply to a request that was already executed. A late copy of an earlier request is not
-- executed either, because nobody waits for it.
local function reply_before(key, request)
  local number, reply = string.match(redis.call('get', key) or '', '^(%d+) (-?%d+)$')
  return number and tonumber(number) >= tonumber(request) and tonumber(reply)
end

local function keep_reply(key, request, reply, keep_ms)
  redis.call('set', key, string.format('%s %.0f', request, reply), 'px', keep_ms)
end

