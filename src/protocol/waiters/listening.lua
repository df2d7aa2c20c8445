-- How many clients listen on a channel, by PUBSUB NUMSUB or SHARDNUMSUB; -1 if this user may not
-- ask.
local function listening(numsub, channel)
  if not may('pubsub', numsub, channel) then
    return -1
  end
  local reply = redis.pcall('pubsub', numsub, channel)
  return reply.err and -1 or tonumber(reply[2])
end
