-- string_force_release: frees a lock, whoever holds it.
-- KEYS[1]  string    the owner's token
-- Returns  1 if it was held, else 0
-- Data of another type is refused, not deleted.
redis.call('get', KEYS[1])
return redis.call('del', KEYS[1])
