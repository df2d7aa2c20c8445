-- Adds permits and tells so, unless the semaphore was deleted. How many subscribers were told.
local function give_back(name, permits, channel, publish)
  if permits == 0 or redis.call('exists', name) == 0 then
    return 0
  end
  local value = redis.call('incrby', name, permits)
  local told = value > 0 and redis.pcall(publish, channel, value) or 0
  return type(told) == 'number' and told or 0
end

