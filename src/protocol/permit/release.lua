-- permit_release: gives permits back and publishes how many are available.
-- KEYS[1]  string    permits that are available
-- KEYS[2]  zset      id -> epoch ms until which it is held
-- ARGV[1]  channel   where added permits are published
-- ARGV[2]  publish   PUBLISH or SPUBLISH
-- ARGV[3]  ids       ids, 32 hex digits each
-- ARGV[4]  note      who releases them and why, each on a line: releases all of them or none and tells their clients, for
--                    a caller that knows the ids and need not be the holder; empty: releases those that are still held
-- Returns  nil       nothing was released
--          integer   released; how many subscribers received the message
-- Idempotent: an id is never used again.
-- After Redisson RedissonPermitExpirableSemaphore.tryReleaseAsync. The message is the number of
-- available permits.
local name, held, ids = KEYS[1], KEYS[2], ids_of(ARGV[3])
purge(name, held, ARGV[1], ARGV[2], now_ms())
if ARGV[4] ~= '' then
  for _, id in ipairs(ids) do
    if not redis.call('zscore', held, id) then
      return nil
    end
  end
end
local back = 0
for _, id in ipairs(ids) do
  back = back + redis.call('zrem', held, id)
end
if back == 0 then
  return nil
end
local receivers = give_back(name, back, ARGV[1], ARGV[2])
if ARGV[4] ~= '' then
  tell_holders(ARGV[3], name, ARGV[4])
end
return receivers
