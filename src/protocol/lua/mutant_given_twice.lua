-- mutant_given_twice: for the tests that must find it: permits come back twice.
local give_back_once = give_back
give_back = function(name, permits, channel, publish)
  return give_back_once(name, 2 * permits, channel, publish)
end
