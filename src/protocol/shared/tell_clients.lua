-- Tells the clients of these owners that a hold was ended by force: one message for each client, on
-- its own channel. An owner begins with the uuid of its client. A client in another shard of a
-- cluster hears PUBLISH only. owners: each second part is not an owner, as in the reply to HGETALL.
-- note: who ended it and why, each on a line.
local function tell_clients(owners, key, note)
  local told = {}
  for i = 1, #owners, 2 do
    local client = string.match(owners[i], '^(%x+%-%x+%-%x+%-%x+%-%x+):')
    if client and not told[client] then
      told[client] = true
      redis.pcall('publish', 'leasehold_client:{' .. client .. '}', '\0forced ' .. note .. '\n' .. key)
    end
  end
end

