-- reclaim_verify: brings a client's holds to a primary in grace, and ends the grace if nobody else is missing.
-- KEYS[1]      hash        the registrations, see register.lua
-- KEYS[2..]    hash        locks that the client holds: owner field -> holds
-- ARGV[1]      client      its id
-- ARGV[2]      session_ms  integer > 0, how long grace lasts at most
-- ARGV[3]      meant       the primary of its session, empty if it has none
-- ARGV[4]      complete    1 if the client holds nothing else
-- ARGV[3i-1..] owner, holds, lease_ms  of KEYS[i]
-- Returns      array       `verified`, the identity of this primary, its number, and 1 if this is no grace any more; or see
--                          elsewhere.lua, if the session is for another primary
-- Idempotent. No lease is shortened. A hold of somebody else is one that has been released, or whose client does not
-- trust it any more, because the caller trusts its own. Unless it was brought in this grace: then this call may be late.
local registrations, client, session_ms, here = KEYS[1], ARGV[1], tonumber(ARGV[2]), identity()
local number, is_open = number_of(registrations, here)
local is_back = is_open and redis.call('hexists', registrations, 'back:' .. client) == 1
if (is_open and not is_back) or (ARGV[3] ~= '' and ARGV[3] ~= here) then
  return elsewhere(registrations, here)
end
-- This client has come already. Its holds are here, and nothing was granted to it since.
if is_back then
  return { 'verified', here, number, 1 }
end
local now = now_ms()
if redis.call('hget', registrations, 'grace') ~= here then
  for _, field in ipairs(redis.call('hkeys', registrations)) do
    if string.sub(field, 1, 5) == 'back:' or string.sub(field, 1, 8) == 'brought:' then
      redis.call('hdel', registrations, field)
    end
  end
  redis.call('hset', registrations, 'grace', here, 'began', string.format('%.0f', now))
end
for i = 2, #KEYS do
  local owner, holds, lease_ms = ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  if redis.call('hexists', registrations, 'gone:' .. owner) == 0 then
    local before_ms, left_ms = redis.call('pttl', KEYS[i]), 0
    for _, other in ipairs(redis.call('hkeys', KEYS[i])) do
      if other == owner or redis.call('hexists', registrations, 'brought:' .. other) == 1 then
        left_ms = before_ms
      else
        redis.call('hdel', KEYS[i], other)
      end
    end
    redis.call('hset', KEYS[i], owner, holds)
    if left_ms ~= -1 then
      redis.call('pexpire', KEYS[i], math.max(left_ms, lease_ms))
    end
    redis.call('hset', registrations, 'brought:' .. owner, 1)
  end
end
redis.call('pexpire', registrations, 8 * session_ms)
if ARGV[4] ~= '1' then
  return { 'verified', here, number, 0 }
end
redis.call('hset', registrations, 'back:' .. client, 1)
-- Whose session lasts is registered here, if this server has run for as long as a session. One that has restarted may
-- have loaded old data, or none. The whole seconds may be one too many.
local up_s = string.match(redis.call('info', 'server'), 'uptime_in_seconds:(%d+)')
local is_over = (tonumber(up_s) or 0) * 1000 > session_ms + 1000
local known, back = redis.call('hgetall', registrations), {}
for i = 1, #known, 2 do
  if string.sub(known[i], 1, 5) == 'back:' then
    back[string.sub(known[i], 6)] = true
  end
end
for i = 1, #known, 2 do
  if string.sub(known[i], 1, 6) == 'until:' and not back[string.sub(known[i], 7)] then
    is_over = is_over and tonumber(known[i + 1]) <= now
  end
end
is_over = is_over or now - tonumber(redis.call('hget', registrations, 'began')) >= session_ms
if is_over then
  redis.call('hset', registrations, 'marker', here, 'number', number)
  redis.call('hdel', registrations, 'grace', 'began')
  for i = 1, #known, 2 do
    local is_of_grace = string.sub(known[i], 1, 5) == 'gone:' or string.sub(known[i], 1, 8) == 'brought:'
    local has_ended = string.sub(known[i], 1, 6) == 'until:' and tonumber(known[i + 1]) <= now
    if is_of_grace or has_ended then
      redis.call('hdel', registrations, known[i])
    end
  end
end
return { 'verified', here, number, is_over and 1 or 0 }
