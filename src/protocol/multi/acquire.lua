-- multi_acquire: takes several free locks at once, or none.
-- The scripts that take one lock precede this text, each as a local function of KEYS and ARGV.
-- KEYS[1..n]   hash      for each lock its key (a string for a string lock), then its extra keys
-- ARGV[3i-2]   script    integer: the number of the script that takes the i-th lock
-- ARGV[3i-1]   owner     field name or token, never used before
-- ARGV[3i]     lease_ms  integer > 0
-- Returns  integer   the number of a lock that another owner holds, from 1
--          array     the number of locks, then for each what its script returns: nil, or {token}
-- Idempotent: a repeated call finds its own fields.
local scripts = { lock_acquire, fenced_acquire, string_acquire, write_acquire }
local keys_of = { 1, 2, 1, 1 }
local STRING = 3
local locks, at = {}, 1
for i = 1, #ARGV, 3 do
  local number, owner, lease_ms = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local after = at + keys_of[number]
  local keys = { unpack(KEYS, at, after - 1) }
  locks[#locks + 1] = { number = number, owner = owner, lease_ms = lease_ms, keys = keys }
  at = after
end
for i, lock in ipairs(locks) do
  local key, free = lock.keys[1], false
  if lock.number == STRING then
    local held = redis.call('get', key)
    free = not held or held == lock.owner
  else
    free = redis.call('exists', key) == 0 or redis.call('hexists', key, lock.owner) == 1
  end
  if not free then
    return i
  end
end
local replies = { #locks }
for i, lock in ipairs(locks) do
  local fine, reply = pcall(scripts[lock.number], lock.keys, { lock.owner, lock.lease_ms })
  if not fine then
    -- The locks taken so far were free or had this call's own fields, so no other owner's hold is
    -- at these keys.
    for n = 1, i do
      redis.call('del', locks[n].keys[1])
    end
    -- An error is a table since Redis 7, and a text before.
    return type(reply) == 'table' and reply or redis.error_reply(reply)
  end
  -- In an array, false becomes nil in the reply. A Lua nil would end the array.
  replies[i + 1] = reply or false
end
return replies
