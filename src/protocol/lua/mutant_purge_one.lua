-- mutant_purge_one: for the tests that must find it: of all expired permits one comes back.
purge = function(name, held, channel, publish, now)
  local dead = redis.call('zrangebyscore', held, 0, now)
  for _, id in ipairs(dead) do
    redis.call('zrem', held, id)
  end
  give_back(name, math.min(#dead, 1), channel, publish)
end
