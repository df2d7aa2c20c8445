-- The world of a script: what Redis 7 gives it, and nothing that changes.
-- Arguments: what the engine provides.
-- Returns    environment, a function that runs a script, a function that sets KEYS and ARGV.
local call, try_call, explain, reason, sha1hex, random, randomseed = ...
local error, pcall, setmetatable, tostring, type, xpcall =
  error, pcall, setmetatable, tostring, type, xpcall

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
  call = call,
  pcall = try_call,
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
    return { err = text:find(' ', 1, true) and text or 'ERR ' .. text }
  end,
}

local own_math = {}
for name, value in pairs(math) do
  own_math[name] = value
end
own_math.random, own_math.randomseed = random, randomseed

-- A caught error is a text: old scripts expect it.
local function texts(ok, ...)
  if ok then
    return ok, ...
  end
  return ok, reason((...))
end

local function own_pcall(...)
  return texts(pcall(...))
end

local known = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, pcall = own_pcall, rawequal = rawequal, rawget = rawget, rawset = rawset,
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
