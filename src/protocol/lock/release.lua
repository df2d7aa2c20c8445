-- lock_release: lowers the count of a hold to a target; zero ends the hold and publishes a message.
-- KEYS[1]  hash      owner field -> holds
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  holds     the count to reach
-- ARGV[4]  owner     field name
-- Returns  nil       no such hold
--          -1        lowered, and still held
--          integer   released; how many subscribers received the message (0 also if PUBLISH was refused)
-- Idempotent: the count is a target, and a field is never used again.
-- The lease does not change, because other holds of the owner rely on it.
local key, channel, publish = KEYS[1], ARGV[1], ARGV[2]
local holds, owner = tonumber(ARGV[3]), ARGV[4]
if holds > 0 then
  local now = redis.call('hget', key, owner)
  if not now then
    return nil
  end
  if tonumber(now) > holds then
    redis.call('hset', key, owner, holds)
  end
  return -1
end
if redis.call('hdel', key, owner) == 0 then
  return nil
end
local receivers = redis.pcall(publish, channel, '0')
if type(receivers) ~= 'number' then
  return 0
end
return receivers
