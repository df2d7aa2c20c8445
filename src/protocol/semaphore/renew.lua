-- semaphore_renew: renews holds that still exist.
-- KEYS[1..n]  zset      owner:permits -> epoch ms until which it holds them
-- ARGV[1]     lease_ms  integer; 0 only asks, and writes nothing
-- ARGV[i+1]   hold      member of KEYS[i]
-- Returns     array: how many are there, and the number i of each that is gone
-- Idempotent. A lost hold is never resurrected, and no lease is shortened.
local now = now_ms()
local until_ms, renewed = now + tonumber(ARGV[1]), { 0 }
for i, holds in ipairs(KEYS) do
  local hold = ARGV[i + 1]
  local kept_until = tonumber(redis.call('zscore', holds, hold) or 0)
  if kept_until > now then
    if kept_until < until_ms then
      let_writes_through(holds)
      redis.call('zadd', holds, string.format('%.0f', until_ms), hold)
    end
    renewed[1] = renewed[1] + 1
  else
    renewed[#renewed + 1] = i
  end
end
return renewed
