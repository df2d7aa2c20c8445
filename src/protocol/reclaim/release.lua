-- In grace, a hold that is missing here is not written back any more, because its guard is gone. So it is released.
-- KEYS[2]  hash  the registrations
if redis.call('hget', KEYS[2], 'marker') ~= identity() and redis.call('hexists', KEYS[1], ARGV[4]) == 0 then
  return tonumber(ARGV[3]) > 0 and -1 or 0
end
