-- The number of the primary with this identity: one more than that of the primary whose data it has.
local function number_of(registrations, here)
  local known = redis.call('hmget', registrations, 'marker', 'number')
  local is_open = known[1] == here
  return (tonumber(known[2]) or 0) + (is_open and 0 or 1), is_open
end
-- What a caller is told that meant another primary, or that came in grace: an array with a word, the identity, the
-- number, and 1 if this is no grace.
local function elsewhere(registrations, here)
  local number, is_open = number_of(registrations, here)
  return { 'elsewhere', here, number, is_open and 1 or 0 }
end
