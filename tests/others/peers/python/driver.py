"""Drives redis-py's own Lock for the tests: one command a line, one answer a line.

A command is `<id> <word> <arguments>`, its answer `<id> ok <value>` or `<id> err <class>`. Each runs
in a thread of its own, so that one that waits keeps nobody else waiting. Locks are known by aliases.
"""

import sys
import threading
import time

import redis
from redis.exceptions import LockError
from redis.lock import Lock

URL = sys.argv[1]
client = redis.Redis.from_url(URL)
locks = {}
printing = threading.Lock()


def seconds(millis):
    return int(millis) / 1000


def make(_, alias, key, timeout):
    locks[alias] = Lock(
        client, key, timeout=seconds(timeout), sleep=0.01, thread_local=False
    )
    return "made"


def lock(alias):
    locks[alias].acquire()
    return "locked"


def is_done(work):
    """False if the lock is not its own."""
    try:
        work()
        return True
    except LockError:
        return False


def adopt(alias, text):
    locks[alias].local.token = text.encode()
    return "adopted"


def contend(_, threads, rounds, key, lease):
    """Enters by many threads; how often somebody else was inside."""
    met = []

    def enter():
        mine = redis.Redis.from_url(URL)
        for _ in range(int(rounds)):
            lock = Lock(mine, key, timeout=seconds(lease), sleep=0.002)
            lock.acquire()
            if mine.incr("inside") != 1:
                met.append(key)
            before = int(mine.get("entered") or 0)
            time.sleep(0.001)
            mine.set("entered", before + 1)
            mine.decr("inside")
            lock.release()

    all_threads = [threading.Thread(target=enter) for _ in range(int(threads))]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return len(met)


COMMANDS = {
    # What all drivers know.
    "make": make,
    "try": lambda alias: locks[alias].acquire(blocking=False),
    "lock": lock,
    "release": lambda alias: is_done(locks[alias].release),
    "extend": lambda alias, millis: is_done(
        lambda: locks[alias].extend(seconds(millis), replace_ttl=True)
    ),
    "owner": lambda alias: locks[alias].local.token.decode(),
    "adopt": adopt,
    "contend": contend,
    # What only this library has.
    "try_for": lambda alias, millis: locks[alias].acquire(blocking_timeout=seconds(millis)),
    "owned": lambda alias: locks[alias].owned(),
    "locked": lambda alias: locks[alias].locked(),
}


def answer(number, word, arguments):
    try:
        value = COMMANDS[word](*arguments)
        text = f"{number} ok {str(value).lower() if isinstance(value, bool) else value}"
    except Exception as error:  # whatever it is, the test wants to know
        text = f"{number} err {type(error).__name__} {error}"
    with printing:
        print(text, flush=True)


for line in sys.stdin:
    number, word, *arguments = line.split()
    threading.Thread(target=answer, args=(number, word, arguments), daemon=True).start()
