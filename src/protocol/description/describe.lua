-- hold_describe: stores who holds locks and what for, for as long as they are held.
-- KEYS[2i-1]  hash, string or zset  the lock, or the holds of a semaphore
-- KEYS[2i]    hash            owner -> since when in ms, name and purpose, with line feeds between
-- ARGV[1]     most            integer > 0, how many owners of one lock are described
-- ARGV[3i-1]  owner
-- ARGV[3i]    age_ms          integer >= 0, since its grant
-- ARGV[3i+1]  text            name and purpose, with a line feed between
-- Returns     integer         how many of them hold their lock
local function holds(lock, form, owner)
  if form == 'hash' then
    return redis.call('hexists', lock, owner) == 1
  end
  if form == 'zset' then
    return redis.call('zscore', lock, owner) ~= false
  end
  return form == 'string' and redis.call('get', lock) == owner
end
-- The longest lease. Each hold of a semaphore has its own. While a key has no expiry, each description lasts for a day.
local DAY_MS = 86400000
local function lease_of(lock, form, now)
  if form ~= 'zset' then
    local left_ms = redis.call('pttl', lock)
    return left_ms == -1 and DAY_MS or left_ms
  end
  local last = redis.call('zrange', lock, -1, -1, 'withscores')
  return tonumber(last[2]) - now
end
local function forget_those_who_left(lock, form, key)
  for _, owner in ipairs(redis.call('hkeys', key)) do
    if not holds(lock, form, owner) then
      redis.call('hdel', key, owner)
    end
  end
end
local most, now, described = tonumber(ARGV[1]), now_ms(), 0
for i = 1, #KEYS, 2 do
  local lock, key, first = KEYS[i], KEYS[i + 1], 3 * (i + 1) / 2 - 1
  local owner, age_ms, text = ARGV[first], tonumber(ARGV[first + 1]), ARGV[first + 2]
  local form = type_of(lock)
  if holds(lock, form, owner) and lease_of(lock, form, now) > 0 then
    local left_ms = lease_of(lock, form, now)
    described = described + 1
    local there = type_of(key)
    -- Leave a key alone that has another type, or more owners than this library describes.
    if there == 'none' or there == 'hash' and redis.call('hlen', key) <= most then
      forget_those_who_left(lock, form, key)
      if redis.call('hexists', key, owner) == 1 or redis.call('hlen', key) < most then
        redis.call('hset', key, owner, string.format('%.0f', now - age_ms) .. '\n' .. text)
      end
      if redis.call('exists', key) == 1 then
        redis.call('pexpire', key, left_ms)
      end
    end
  end
end
return described
