-- waits_say: stores what the long waiters of one client hold and wait for, for a moment.
-- KEYS[1]  hash      client -> until when in ms, a line feed, and its waits
-- ARGV[1]  client    its uuid
-- ARGV[2]  waits     text, empty if there are none any more
-- ARGV[3]  keep_ms   integer > 0
-- Returns  integer   how many clients have waits
-- Idempotent: a later call replaces it.
local key, client, waits, now = KEYS[1], ARGV[1], ARGV[2], now_ms()
-- The fields of dead clients, a few at a time.
local FEW = 3
local some = redis.call('hrandfield', key, FEW, 'withvalues')
for i = 1, #some, 2 do
  if tonumber(string.match(some[i + 1], '^%d+') or 0) < now then
    redis.call('hdel', key, some[i])
  end
end
if waits == '' then
  redis.call('hdel', key, client)
else
  redis.call('hset', key, client, string.format('%.0f', now + ARGV[3]) .. '\n' .. waits)
  redis.call('pexpire', key, ARGV[3])
end
return redis.call('hlen', key)
