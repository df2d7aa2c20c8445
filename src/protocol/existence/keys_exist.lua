-- keys_exist: returns which of the keys are missing, for the safety poll of all waiters of a
-- client.
-- KEYS[1..n]  any type; none at all asks whether scripts run
-- Returns     array    the numbers of the missing keys, from 1; empty if all exist
-- One EXISTS counts all keys, and only if some are missing is each key checked. Undeclared keys are
-- always checked one by one, because they may be in several slots: after one command with such
-- keys, a Valkey 9.1 refuses every later script that names a key.
local missing = {}
if #KEYS == 0 then
  return missing
end
if not ARGV.undeclared and redis.call('exists', unpack(KEYS)) == #KEYS then
  return missing
end
for number, key in ipairs(KEYS) do
  if redis.call('exists', key) == 0 then
    missing[#missing + 1] = number
  end
end
return missing
