-- mutant_resurrects: for the tests that must find it: a permit that is renewed is held, whatever had
-- become of it.
local call = redis.call
local redis = {
  call = function(command, ...)
    return command == 'zscore' and string.format('%.0f', now_ms() + 1) or call(command, ...)
  end,
}
