-- lock_release: lowers the count of a hold to a target; zero ends the hold, or the wait of its owner. A free lock goes
-- to the first waiter whose client listens, or all waiters get a message.
-- KEYS[1]  hash      owner field -> holds and waiters, see waiters.lua
-- ARGV[1]  channel   where waiters listen
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  holds     the count to reach
-- ARGV[4]  owner     field name
-- ARGV[5]  own       optional: look for waiters. How many of those that listen on the channel are the caller's client
-- Returns  nil       no such hold
--          -1        lowered, and still held
--          -2        released, and a waiter has the lock now
--          -3        released, and the waiters that are listed should let all others go first
--          integer   released; how many subscribers received the message to all (0 also if PUBLISH was refused)
-- Idempotent: the count is a target, and a field is never used again.
-- The lease does not change, because other holds of the owner rely on it.
local key, channel, publish = KEYS[1], ARGV[1], ARGV[2]
local holds, owner, own = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
if holds > 0 then
  local value = redis.call('hget', key, owner)
  if not value then
    return nil
  end
  local now, waiters = string.match(value, '^(%d+)(.*)$')
  if tonumber(now) > holds then
    redis.call('hset', key, owner, holds .. waiters)
  end
  return -1
end
local function free()
  if redis.call('hdel', key, owner) == 0 then
    return nil
  end
  local receivers = redis.pcall(publish, channel, '0')
  return type(receivers) == 'number' and receivers or 0
end
if not own then
  return free()
end
