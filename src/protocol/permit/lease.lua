-- permit_lease: returns how long a permit is still held.
-- KEYS[1]  zset      id -> epoch ms until which it is held
-- ARGV[1]  ids       id, 32 hex digits
-- Returns  integer   ms; -1 if it does not expire, -2 if it is not held
local kept_until = redis.call('zscore', KEYS[1], ids_of(ARGV[1])[1])
if not kept_until then
  return -2
end
if kept_until == '922337203685477' then
  return -1
end
local left_ms = tonumber(kept_until) - now_ms()
return left_ms > 0 and left_ms or -2
