-- The world of a script: what Redis 7 gives it, and nothing that changes.
-- Arguments: what the engine provides.
-- Returns    environment, a function that runs a script, a function that sets KEYS and ARGV.
local run_command, explain, sha1hex, random, randomseed = ...
local error, rawget, setmetatable, tostring, type, xpcall =
  error, rawget, setmetatable, tostring, type, xpcall

local function readonly(inner, missing)
  return setmetatable({}, {
    __index = missing and function(_, name) return missing(inner, name) end or inner,
    __newindex = function() error('Attempt to modify a readonly table', 2) end,
    __metatable = false,
  })
end

local redis = {
  sha1hex = sha1hex,
  log = function() end,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  pcall = function(...) return (run_command(...)) end,
  call = function(...)
    local reply = run_command(...)
    if type(reply) == 'table' and rawget(reply, 'err') then
      error(reply)
    end
    return reply
  end,
  status_reply = function(text)
    if type(text) ~= 'string' then
      return { err = 'ERR wrong number or type of arguments' }
    end
    return { ok = text }
  end,
  error_reply = function(text)
    if type(text) ~= 'string' then
      return { err = 'ERR wrong number or type of arguments' }
    end
    text = text:gsub('^%-', '')
    if not text:find(' ', 1, true) then
      text = 'ERR ' .. text
    end
    return { err = text }
  end,
}

local own_math = {}
for name, value in pairs(math) do
  own_math[name] = value
end
own_math.random, own_math.randomseed = random, randomseed

local known = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, pcall = pcall, rawequal = rawequal, rawget = rawget, rawset = rawset,
  select = select, setmetatable = setmetatable, tonumber = tonumber, tostring = tostring,
  type = type, unpack = unpack, xpcall = xpcall, _VERSION = _VERSION,
  math = readonly(own_math), redis = readonly(redis), string = readonly(string),
  table = readonly(table),
}

local function missing(inner, name)
  local value = inner[name]
  if value == nil then
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 3)
  end
  return value
end

local environment = readonly(known, missing)
known._G = environment

local function run(script, keys, args)
  known.KEYS, known.ARGV = keys, args
  return xpcall(script, explain)
end

return environment, run
