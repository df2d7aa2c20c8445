-- semaphore_acquire: takes permits if enough are available.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      owner:permits -> epoch ms until which it holds them
-- KEYS[3]  string    the limit that was applied last; only with a limit, or for several permits
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  hold      field name that ends with :permits, never used before
-- ARGV[4]  lease_ms  integer > 0
-- ARGV[5]  limit     integer > 0: the total number of permits; absent if none is declared
-- Returns  nil       acquired
--          integer   ms until the lease of a holder ends, -1 if no holder is known
--          array     the limit, which is too low; -1 if the number of permits was never set
-- Idempotent: a repeated call finds its own hold, and never shortens its lease.
-- After Redisson RedissonSemaphore.tryAcquire. Redisson keeps no holds.
local name, holds, owner, lease_ms = KEYS[1], KEYS[2], ARGV[3], tonumber(ARGV[4])
local now = now_ms()
local until_ms = string.format('%.0f', now + lease_ms)
-- Makes the holds expire with the semaphore, because a later semaphore of the same name has other
-- holds. Other programs may set or remove the expiry of the semaphore at any time.
local function live_as_long()
  local ends_ms = redis.call('pttl', name)
  if ends_ms > 0 then
    redis.call('pexpire', holds, ends_ms)
  elseif ends_ms == -1 then
    redis.call('persist', holds)
  end
end
local kept_until = redis.call('zscore', holds, owner)
if kept_until then
  if tonumber(kept_until) < now + lease_ms then
    redis.call('zadd', holds, until_ms, owner)
  end
  return nil
end
purge(name, holds, ARGV[1], ARGV[2], now)
local permits = permits_of(owner)
local available = ARGV[5]
    and available_within(name, holds, KEYS[3], ARGV[5], permits, ARGV[1], ARGV[2])
  or redis.call('get', name)
if not available then
  return { -1 }
end
if tonumber(available) >= permits then
  redis.call('decrby', name, permits)
  local kept = redis.pcall('zadd', holds, until_ms, owner)
  if type(kept) == 'table' then
    -- Redis refused to store the hold. Undo the decrement: permits without a known holder would
    -- never come back.
    redis.call('incrby', name, permits)
    return kept
  end
  live_as_long()
  return nil
end
live_as_long()
local limit = not ARGV[5] and limit_below(KEYS[3], permits)
if limit then
  return { limit }
end
local first = redis.call('zrange', holds, 0, 0, 'withscores')
return first[2] and tonumber(first[2]) - now or -1
