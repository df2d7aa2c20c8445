-- semaphore_renew: renews holds that still exist.
-- KEYS[1..n]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[2i-1]  hold      member of KEYS[i]
-- ARGV[2i]    lease_ms  integer > 0
-- Returns     array of 0 or 1, 0 where the hold is gone
-- Idempotent. A lost hold is never resurrected, and no lease is shortened.
local now = now_ms()
local renewed = {}
for i, holds in ipairs(KEYS) do
  local owner = ARGV[2 * i - 1]
  local kept_until = tonumber(redis.call('zscore', holds, owner) or 0)
  renewed[i] = kept_until > now and 1 or 0
  if renewed[i] == 1 then
    let_writes_through(holds)
    kept_until = math.max(kept_until, now + tonumber(ARGV[2 * i]))
    redis.call('zadd', holds, string.format('%.0f', kept_until), owner)
  end
end
return renewed
