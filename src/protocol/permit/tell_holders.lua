-- Tells the clients of these permits that they were released, as tell_clients does for owners. An id is
-- the uuid of its client, changed behind the first 8 hex digits. So these digits name the channel. Few
-- clients share it, and a message only makes them ask. ids: 32 hex digits each.
local ID_LENGTH, UNCHANGED = 32, 8
local function tell_holders(ids, key, note)
  local told = {}
  for first = 1, #ids, ID_LENGTH do
    local client = string.sub(ids, first, first + UNCHANGED - 1)
    if not told[client] then
      told[client] = true
      redis.pcall('publish', 'leasehold_client:{' .. client .. '}', '\0forced ' .. note .. '\n' .. key)
    end
  end
end

