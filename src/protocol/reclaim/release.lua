-- In grace, a hold that is missing here counts as released. It is not brought any more: its guard is gone, and a call
-- that brings it may be on its way, so its field is noted.
-- KEYS[2]  hash  the registrations, see register.lua
if redis.call('hget', KEYS[2], 'marker') ~= identity() then
  local is_inner = tonumber(ARGV[3]) > 0
  if not is_inner then
    redis.call('hset', KEYS[2], 'gone:' .. ARGV[4], 1)
    if redis.call('pttl', KEYS[2]) < 0 then
      redis.call('pexpire', KEYS[2], 3600000)
    end
  end
  if redis.call('hexists', KEYS[1], ARGV[4]) == 0 then
    return is_inner and -1 or 0
  end
end
