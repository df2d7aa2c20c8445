-- keys_exist: tells which of the keys are missing. The safety poll of all waiters of a client.
-- KEYS[1..n]  any type; none at all asks whether scripts run
-- Returns     array    the numbers of those that are missing, from 1; empty if all are there
-- All are looked at at once, and each only if that shows that some are missing. Not so undeclared keys, which may be of
-- several slots: a Valkey 9.1 that is asked for such keys by one command refuses every later script that names a key.
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
