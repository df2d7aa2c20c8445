-- Whether this user may run a command. Asked first, as a refusal would be in the log of the server. Before
-- Redis 7.0 only trying tells.
local function may(...)
  local told, allowed = pcall(redis.acl_check_cmd, ...)
  return allowed or not told
end
