-- multi_acquire: takes several free locks at once, or none.
-- KEYS[1..n]  hash      owner field -> holds
-- ARGV[1]     lease_ms  integer > 0
-- ARGV[2..]   owner     for each key a field name, never used before
-- Returns     nil       all acquired
--             integer   which one is held by somebody else, from 1
-- Idempotent: a repeated call finds its own fields.
local lease_ms = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  if redis.call('exists', key) == 1 and redis.call('hexists', key, ARGV[i + 1]) == 0 then
    return i
  end
end
for i, key in ipairs(KEYS) do
  redis.call('hset', key, ARGV[i + 1], 1)
  lengthen(key, lease_ms)
end
return nil
