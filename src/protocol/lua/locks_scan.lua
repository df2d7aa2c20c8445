-- locks_scan: one step of a search for locks.
-- KEYS[1]  string    no key: where the search is, so that it has a slot
-- ARGV[1]  cursor    0 at first
-- ARGV[2]  pattern   of names, as for SCAN
-- ARGV[3]  count     integer > 0, how much work one step is
-- ARGV[4]  before    what stands before a key's name in the queue of a fair lock
-- ARGV[5]  token     what stands before a key's name in the counter of a fenced lock
-- Returns  array     the next cursor; then for each lock an array: name, type, remaining lease in ms,
--                    length of its fair queue, 1 if it has a token counter, then fields and values,
--                    without readers whose lease ended
-- A string of more than 128 bytes is left out, and a hash of more fields than a lock may have: data.
local MOST_HOLDERS = 64
local MOST_READERS = 1024
local MOST_BYTES = 128
local function tagged(name)
  return string.find(name, '{', 1, true) and name or '{' .. name .. '}'
end
local function may_be_lock(name)
  local fields = redis.call('hlen', name)
  if fields <= MOST_HOLDERS then
    return true
  end
  return fields <= MOST_READERS and redis.call('hget', name, 'mode') == 'read'
end
-- There may be anything under the name of the queue.
local function queue_of(name)
  local waiters = redis.pcall('llen', ARGV[4] .. ':' .. tagged(name))
  return type(waiters) == 'number' and waiters or 0
end
-- A reader that died stands in the hash until the others have left. One of ours has one hold; of the
-- nested ones of a thread the first or the last lives longest.
local function reads(name, owner, holds)
  local lives = tagged(name) .. ':' .. owner .. ':rwlock_timeout:'
  return redis.call('exists', lives .. '1', lives .. holds) > 0
end
local step = redis.call('scan', ARGV[1], 'match', ARGV[2], 'count', ARGV[3])
local found = { step[1] }
for _, name in ipairs(step[2]) do
  local kind = redis.call('type', name).ok
  if kind == 'hash' and may_be_lock(name) then
    local lock = { name, kind, redis.call('pttl', name), queue_of(name),
      redis.call('exists', ARGV[5] .. ':' .. tagged(name)) }
    local parts = redis.call('hgetall', name)
    local is_read = redis.call('hget', name, 'mode') == 'read'
    for i = 1, #parts, 2 do
      if not is_read or parts[i] == 'mode' or reads(name, parts[i], parts[i + 1]) then
        lock[#lock + 1] = parts[i]
        lock[#lock + 1] = parts[i + 1]
      end
    end
    found[#found + 1] = lock
  elseif kind == 'string' and redis.call('strlen', name) <= MOST_BYTES then
    found[#found + 1] = { name, kind, redis.call('pttl', name), 0, 0, redis.call('get', name) }
  end
end
return found
