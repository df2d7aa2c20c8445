-- batch: runs several calls of other scripts in one round trip, one after the other.
-- Before this text stand the scripts themselves, each as a local function of KEYS and ARGV, after
-- what they share.
-- KEYS[i]  of the i-th call: every script here takes one key
-- ARGV     for each call: the number of its script, then its arguments
-- Returns  array  how many calls, then for each: nil, an integer, or {text} if it failed
-- A call that fails does so alone. The number comes first, so that no array looks like a message.
local scripts = { lock_acquire, lock_reenter, lock_release, lock_take_over }
local arguments = { 2, 3, 4, 3 }
local replies, at = { #KEYS }, 1
for i, key in ipairs(KEYS) do
  local number = tonumber(ARGV[at])
  local last = at + arguments[number]
  local fine, reply = pcall(scripts[number], { key }, { unpack(ARGV, at + 1, last) })
  if not fine then
    -- A table since Redis 7, a text before.
    if type(reply) == 'table' then
      reply = reply.err
    end
    reply = { tostring(reply) }
  elseif reply == nil then
    -- In an array false stands for nil, which would end it.
    reply = false
  end
  replies[i + 1] = reply
  at = last + 1
end
return replies
