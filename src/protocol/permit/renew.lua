-- permit_renew: renews the permits of each holder that still has all of its permits.
-- KEYS[1..n]  zset      id -> epoch ms until which it is held
-- ARGV[1]     lease_ms  integer; 0 only asks, and writes nothing
-- ARGV[i+1]   ids       ids in KEYS[i], 32 hex digits each
-- Returns     array: how many have all of theirs, and the number i of each that has not
-- Idempotent. A lost permit is never resurrected, and no lease is shortened.
local now = now_ms()
local until_ms, renewed = now + tonumber(ARGV[1]), { 0 }
for i, held in ipairs(KEYS) do
  local ids, later = ids_of(ARGV[i + 1]), {}
  local has_all = #ids > 0
  for n, id in ipairs(ids) do
    local kept_until = tonumber(redis.call('zscore', held, id) or 0)
    has_all = has_all and kept_until > now
    later[n] = kept_until < until_ms
  end
  if has_all then
    for n, id in ipairs(ids) do
      if later[n] then
        let_writes_through(held)
        redis.call('zadd', held, string.format('%.0f', until_ms), id)
      end
    end
    renewed[1] = renewed[1] + 1
  else
    renewed[#renewed + 1] = i
  end
end
return renewed
