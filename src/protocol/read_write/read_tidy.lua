-- read_tidy: looks at readers that a release could not look at, and frees the lock if none of them is left.
-- KEYS[1]   hash      mode -> read or write; owner field -> holds
-- KEYS[2]   string    the prefix of the keys of all read holds; not a key itself
-- KEYS[3..] string    keys that expire with read holds, as a release has returned them
-- ARGV[1]   channel   where waiters listen
-- ARGV[2]   publish   PUBLISH or SPUBLISH
-- Returns   integer   how many subscribers received the message (0 also if others still hold it)
--           array     the same, and then keys of readers that are not declared: all declared ones have died
-- Idempotent: it removes dead readers only.
local key, prefix, declared = KEYS[1], KEYS[2], {}
if redis.call('hget', key, 'mode') ~= 'read' then
  return 0
end
for i = 3, #KEYS do
  local owner = string.match(string.sub(KEYS[i], #prefix + 2), '^(.+):rwlock_timeout:%d+$')
  local holds = owner and redis.call('hget', key, owner)
  if holds then
    declared[#declared + 1] = owner
    declared[#declared + 1] = holds
  end
end
local longest_ms = longest_of(key, prefix, declared)
if longest_ms > 0 and redis.call('hlen', key) > FEW or readers_left(key, prefix, 0) then
  return receivers_of(0)
end
redis.call('del', key)
return receivers_of(redis.pcall(ARGV[2], ARGV[1], '0'))
