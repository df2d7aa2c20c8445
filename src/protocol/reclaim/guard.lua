-- Runs the script below only on the primary for which the caller has a session, and not in its grace.
-- KEYS[#KEYS]  hash      the registrations
-- ARGV[#ARGV]  identity  of the primary
-- Returns      array     where it does not run: see elsewhere.lua
do
  local registrations, meant, here = table.remove(KEYS), table.remove(ARGV), identity()
  if here ~= meant or redis.call('hget', registrations, 'marker') ~= here then
    return elsewhere(registrations, here)
  end
end
