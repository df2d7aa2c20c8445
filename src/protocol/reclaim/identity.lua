-- What a primary is. It changes with each promotion and each restart.
local function identity()
  local id = string.match(redis.call('info', 'replication'), 'master_replid:(%x+)')
  return id or error('INFO does not say master_replid')
end
