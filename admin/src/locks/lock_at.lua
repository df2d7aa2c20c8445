-- What a search tells about one key: an array with name, type, remaining lease in ms, length of its fair queue, 1 if it
-- has a token counter (of a semaphore its limit, or 0), descriptions of its holders, number of clients that listen for
-- its release (-1 unknown); then for a string its value, for a hash each field, its value and the rest of its own lease
-- in ms. Readers whose lease has ended are left out. The type of a number is `semaphore`, `permits` or `latch`, its
-- value is followed by each hold and the rest of its lease in ms.
-- A name need not be UTF-8, and the client reads replies as UTF-8. So a name that is not ASCII is an array with its
-- bytes in hex.
-- A string of more than 128 bytes and a hash with too many fields are data and are left out. So is a number, unless
-- permits of it are held, a client waits for it, or it has a limit.
local MOST_HOLDERS = 64
local MOST_READERS = 1024
local MOST_PERMITS = 1024
-- Permits without a lease have a score far in the future.
local NEVER_MS = 31536000000
local MOST_NESTED = 100
local MOST_BYTES = 128
-- A limit is a number of 32 bits.
local MOST_DIGITS = 10
local function in_hex(text)
  return (string.gsub(text, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end
local function sent(name)
  return string.find(name, '[\128-\255]') and { in_hex(name) } or name
end
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
-- A name with braces gets a second colon, so that `x` and `{x}` have different keys.
local function ours(prefix, name)
  return prefix .. (string.find(name, '{', 1, true) and '::' or ':') .. tagged(name)
end
local function said_of(name)
  return described(ours(ARGV[3], name))
end
local function listening_for(name, mode)
  local prefix = mode and 'redisson_rwlock:' or 'redisson_lock__channel:'
  return listening(ARGV[4], prefix .. tagged(name))
end
-- The key of the queue may hold anything.
local function queue_of(name)
  local waiters = redis.pcall('llen', ARGV[1] .. ':' .. tagged(name))
  return type(waiters) == 'number' and waiters or 0
end
-- The keys of readers' leases that a server refuses to read, because they are not declared.
local unread, UNKNOWN_MS = {}, math.huge
-- The longest lease of the nested read holds of one owner in ms, -1 if one has no expiry, -2 if there is none. More holds
-- than any reader has are not counted to the end.
local function longest_read(name, owner, holds)
  local lives = tagged(name) .. ':' .. owner .. ':rwlock_timeout:'
  local longest_ms = -2
  for hold = 1, math.min(tonumber(holds) or 0, MOST_NESTED) do
    local left_ms = UNKNOWN_MS
    if #unread < MOST_READERS then
      left_ms = redis.pcall('pttl', lives .. hold)
    end
    if type(left_ms) ~= 'number' then
      unread[#unread + 1] = lives .. hold
      left_ms = UNKNOWN_MS
    end
    if left_ms == -1 then
      return left_ms
    end
    longest_ms = math.max(longest_ms, left_ms)
  end
  return longest_ms
end
-- The holds whose lease has not ended, and what is left of it. The key may hold anything.
local function held_in(key)
  if not may('time') or not may('zrangebyscore', key, 0, 1) then
    return {}
  end
  local now, held = now_ms(), {}
  local range = { string.format('(%.0f', now), '+inf', 'withscores', 'limit', 0, MOST_PERMITS }
  local parts = redis.pcall('zrangebyscore', key, unpack(range))
  for i = 1, #parts, 2 do
    if #parts[i] <= MOST_BYTES then
      held[#held + 1] = parts[i]
      held[#held + 1] = math.min(tonumber(parts[i + 1]) - now, NEVER_MS)
    end
  end
  return held
end
-- The limit of a semaphore; 0 if there is none, or if this user may not read it. The key may hold anything.
local function limit_of(name)
  local key = ours(ARGV[6], name)
  local limit = may('get', key) and redis.pcall('get', key)
  return type(limit) == 'string' and #limit <= MOST_DIGITS and tonumber(string.match(limit, '^%d+$')) or 0
end
-- What a number counts, and the holds of its permits; nil if nobody holds or waits, and it has no limit.
local function counted(name, limit)
  local held = held_in(ours(ARGV[5], name))
  local waiting = listening(ARGV[4], 'redisson_sc:' .. tagged(name))
  if #held > 0 then
    return 'semaphore', waiting, held
  end
  held = held_in(tagged(name) .. ':timeout')
  for i = 1, #held, 2 do
    held[i] = in_hex(held[i])
  end
  if #held > 0 then
    return 'permits', waiting, held
  end
  if waiting > 0 then
    return 'semaphore', waiting, held
  end
  local awaited = listening(ARGV[4], 'redisson_countdownlatch__channel__{' .. name .. '}')
  if awaited > 0 then
    return 'latch', awaited, held
  end
  if limit > 0 then
    return 'semaphore', waiting, held
  end
end
local function string_at(name)
  local value, left_ms = redis.call('get', name), redis.call('pttl', name)
  if not string.find(value, '^-?%d+$') then
    return { sent(name), 'string', left_ms, 0, 0, said_of(name), -1, value }
  end
  local limit = limit_of(name)
  local kind, waiting, held = counted(name, limit)
  return kind and { sent(name), kind, left_ms, 0, limit, said_of(name), waiting, value, unpack(held) }
end
local function hash_at(name)
  local left_ms, mode = redis.call('pttl', name), redis.call('hget', name, 'mode')
  local lock = { sent(name), 'hash', left_ms, queue_of(name),
    redis.call('exists', ARGV[2] .. ':' .. tagged(name)), said_of(name), listening_for(name, mode) }
  local parts = redis.call('hgetall', name)
  for i = 1, #parts, 2 do
    local field, value, own_ms = parts[i], parts[i + 1], -2
    if mode and field ~= 'mode' then
      own_ms = longest_read(name, field, value)
    end
    -- A dead reader stays in the hash until the others have left.
    if own_ms ~= -2 or field == 'mode' or mode ~= 'read' then
      lock[#lock + 1] = field
      lock[#lock + 1] = value
      lock[#lock + 1] = own_ms ~= -2 and own_ms < UNKNOWN_MS and own_ms or left_ms
    end
  end
  return lock
end
-- What is known about a lock; nil for data.
local function lock_at(name)
  local kind = type_of(name)
  if kind == 'hash' and may_be_lock(name) then
    return hash_at(name)
  end
  if kind == 'string' and redis.call('strlen', name) <= MOST_BYTES then
    return string_at(name)
  end
end
