-- Adds permits and publishes that, unless the semaphore was deleted. Returns how many subscribers
-- received the message.
local function give_back(name, permits, channel, publish)
  if permits == 0 or redis.call('exists', name) == 0 then
    return 0
  end
  local value = redis.call('incrby', name, permits)
  local receivers = value > 0 and redis.pcall(publish, channel, value) or 0
  return type(receivers) == 'number' and receivers or 0
end

