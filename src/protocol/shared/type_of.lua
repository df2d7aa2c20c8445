-- The type of a key. Redis answers with a status, jedis-mock with a text.
local function type_of(key)
  local answer = redis.call('type', key)
  return type(answer) == 'table' and answer.ok or answer
end
