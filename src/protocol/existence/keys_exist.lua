-- keys_exist: returns which of the keys are missing, for the safety poll of all waiters of a
-- client.
-- KEYS[1..n]  any type; none at all asks whether scripts run
-- Returns     array    the numbers of the missing keys, from 1; empty if all exist
-- One EXISTS counts all keys, and only if some are missing is each key checked.
local missing = {}
if #KEYS == 0 or redis.call('exists', unpack(KEYS)) == #KEYS then
  return missing
end
for number = 1, #KEYS do
  if redis.call('exists', KEYS[number]) == 0 then
    missing[#missing + 1] = number
  end
end
return missing
