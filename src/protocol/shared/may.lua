-- Whether this user may run a command. Asked first, as a refusal would be in the log of the server. Before
-- Redis 7.0 only trying tells.
local function may(...)
  return not redis.acl_check_cmd or redis.acl_check_cmd(...)
end
