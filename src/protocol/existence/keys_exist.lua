-- keys_exist: tells which of the keys are missing. The safety poll of all waiters of a client.
-- KEYS[1..n]  any type; none at all asks whether scripts run
-- Returns     array    the numbers of those that are missing, from 1; empty if all are there
-- Each is asked for by itself: the keys may be of several slots of a cluster's node. A Valkey 9.1 that is asked for
-- several such keys by one command refuses every later script that names a key.
local missing = {}
for number, key in ipairs(KEYS) do
  if redis.call('exists', key) == 0 then
    missing[#missing + 1] = number
  end
end
return missing
