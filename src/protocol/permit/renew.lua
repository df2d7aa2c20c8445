-- permit_renew: renews the permits of each holder that still has all of its permits.
-- KEYS[1..n]  zset      id -> epoch ms until which it is held
-- ARGV[2i-1]  ids       ids in KEYS[i], 32 hex digits each
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where one of the ids is gone
-- Idempotent. A lost permit is never resurrected, and no lease is shortened.
local now = now_ms()
local renewed = {}
for i, held in ipairs(KEYS) do
  local ids, until_ms, later = ids_of(ARGV[2 * i - 1]), now + tonumber(ARGV[2 * i]), {}
  renewed[i] = #ids > 0 and 1 or 0
  for n, id in ipairs(ids) do
    local kept_until = tonumber(redis.call('zscore', held, id) or 0)
    renewed[i] = kept_until > now and renewed[i] or 0
    later[n] = kept_until < until_ms
  end
  if renewed[i] == 1 then
    let_writes_through(held)
    for n, id in ipairs(ids) do
      if later[n] then
        redis.call('zadd', held, string.format('%.0f', until_ms), id)
      end
    end
  end
end
return renewed
