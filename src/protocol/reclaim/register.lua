-- reclaim_register: begins or renews a client's session. It counts when every replica has it.
-- KEYS[1]  hash        the registrations: `marker` and `number` of the primary whose data is complete, `until:CLIENT` when
--                      each registration ends; in grace also `grace`, `began`, `back:CLIENT`
--                      `brought:FIELD` of each hold that was brought, and `gone:FIELD` of each that has been released
-- ARGV[1]  client      its id
-- ARGV[2]  session_ms  integer > 0
-- ARGV[3]  meant       the primary of its session, empty if it has none
-- Returns  array       `registered`, the identity of this primary and its number; or see elsewhere.lua
-- A registration is kept for twice the time, because the clock of another server may differ.
local registrations, session_ms, here = KEYS[1], tonumber(ARGV[2]), identity()
local number, is_open = number_of(registrations, here)
if not is_open or (ARGV[3] ~= '' and ARGV[3] ~= here) then
  return elsewhere(registrations, here)
end
redis.call('hset', registrations, 'until:' .. ARGV[1], string.format('%.0f', now_ms() + 2 * session_ms))
redis.call('pexpire', registrations, 8 * session_ms)
return { 'registered', here, number }
