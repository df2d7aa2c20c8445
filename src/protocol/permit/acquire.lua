-- permit_acquire: takes permits with ids if enough are available.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      id -> epoch ms until which it is held
-- KEYS[3]  string    the limit that was applied last; only with a limit, or for several permits
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  ids       ids, 32 hex digits each, never used before
-- ARGV[4]  lease_ms  integer > 0
-- ARGV[5]  limit     integer > 0: the total number of permits; absent if none is declared
-- Returns  nil       acquired
--          integer   ms until the lease of a permit ends, -1 if none does
--          array     the limit, which is too low; -1 if the number of permits was never set
-- Idempotent: a repeated call finds its own ids, and never shortens their lease.
-- After Redisson RedissonPermitExpirableSemaphore.tryAcquireAsync. All expired permits come back
-- first.
local name, held, lease_ms = KEYS[1], KEYS[2], tonumber(ARGV[4])
local ids, now = ids_of(ARGV[3]), now_ms()
local until_ms = string.format('%.0f', now + lease_ms)
if redis.call('zscore', held, ids[1]) then
  for _, id in ipairs(ids) do
    local kept_until = redis.call('zscore', held, id)
    if kept_until and tonumber(kept_until) < now + lease_ms then
      redis.call('zadd', held, until_ms, id)
    end
  end
  return nil
end
purge(name, held, ARGV[1], ARGV[2], now)
local available = ARGV[5]
    and available_within(name, held, KEYS[3], ARGV[5], #ids, ARGV[1], ARGV[2])
  or redis.call('get', name)
if not available then
  return { -1 }
end
if tonumber(available) < #ids then
  local limit = not ARGV[5] and limit_below(KEYS[3], #ids)
  if limit then
    return { limit }
  end
  local first = redis.call('zrange', held, 0, 0, 'withscores')
  local left_ms = first[2] and tonumber(first[2]) - now or -1
  return left_ms < 31536000000 and left_ms or -1
end
redis.call('decrby', name, #ids)
for _, id in ipairs(ids) do
  local kept = redis.pcall('zadd', held, 'nx', until_ms, id)
  if type(kept) == 'table' then
    -- Redis refused the first id, and so all of them. Undo the decrement: permits without a known
    -- holder would never come back.
    redis.call('incrby', name, #ids)
    return kept
  end
  if kept == 0 then
    -- An earlier call took this id. Its first id has been given back since then.
    redis.call('incrby', name, 1)
  end
end
local ends_ms = redis.call('pttl', name)
if ends_ms > 0 then
  redis.call('pexpire', held, ends_ms)
end
return nil
