"""A client process of the published fault run that uses the Lock of redis-py: tools/faults/src/peers.rs.

It writes events to standard output in the format of tools/faults/src/history.rs, and reads orders from standard input.
"""

import argparse
import ctypes
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import LockNotOwnedError
from redis.sentinel import Sentinel

# Time between two checks of a long hold, in seconds.
LONG_STEP = 0.02


def millis(text):
    return int(text) / 1000


def span(text):
    first, last = text.split("-")
    return millis(first), millis(last)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--deployment", choices=["single", "sentinel", "cluster"], required=True)
    parser.add_argument("--process", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--workloads", choices=["plain"], required=True)
    parser.add_argument("--lease-ms", type=millis, required=True)
    parser.add_argument("--wait-ms", type=millis, required=True)
    parser.add_argument("--hold-ms", type=span, required=True)
    parser.add_argument("--step-ms", type=millis, required=True)
    parser.add_argument("--long-ms", type=span, required=True)
    parser.add_argument("--think-ms", type=span, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--resource", required=True)
    return parser.parse_args()


def connect(url, deployment):
    whole = urlsplit(url)
    hosts = [host.rsplit(":", 1) for host in whole.netloc.split(",")]
    if deployment == "sentinel":
        sentinels = Sentinel([(host, int(port)) for host, port in hosts])
        return sentinels.master_for(whole.path.strip("/"))
    if deployment == "cluster":
        return RedisCluster(startup_nodes=[ClusterNode(host, int(port)) for host, port in hosts])
    return redis.Redis.from_url(url)


class History:
    """Writes events to standard output without delay."""

    def __init__(self, process):
        self.process = process
        self.guard = threading.Lock()

    def record(self, worker, name, event, **more):
        # Read the clocks first, so that waiting for the lock below does not delay the time of the event.
        line = {"at": time.monotonic_ns(), "wall": time.time_ns(), "process": self.process}
        line.update(worker=worker, event=event, **more)
        if name:
            line["name"] = name
        with self.guard:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def sample_every_second(self):
        while True:
            with open("/proc/self/status") as file:
                status = dict(line.split(":", 1) for line in file)
            self.record(
                0,
                "",
                "sample",
                rss_kib=int(status["VmRSS"].split()[0]),
                threads=int(status["Threads"]),
                descriptors=len(os.listdir("/proc/self/fd")),
            )
            time.sleep(1)


@dataclass
class Plan:
    """What a worker does next, in seconds. The drivers of all libraries use the same plan."""

    name: str
    wait: float
    stay: float
    step: float
    # The worker checks the lock and writes only at the end of the hold.
    is_paused: bool = False


def plan(worker, arguments, dice):
    """Plans a quick hold for workers with an even number, and a long hold for the others."""

    def one_of(number):
        return dice.randrange(number) == 0

    if worker % 2 == 0:
        name = "plain:1" if one_of(8) else "plain:0"
        wait = dice.uniform(arguments.wait_ms / 10, arguments.wait_ms)
        stay = 0 if one_of(4) else dice.uniform(*arguments.hold_ms)
        return Plan(name, wait, stay, arguments.step_ms)
    stay = dice.uniform(*arguments.long_ms)
    return Plan("plain:1", arguments.wait_ms, stay, LONG_STEP, is_paused=one_of(8))


class Worker:
    def __init__(self, number, client, arguments, history, orders):
        self.number = number
        self.client = client
        self.arguments = arguments
        self.history = history
        self.orders = orders
        self.random = random.Random(f"{arguments.seed} {arguments.process} {number}")
        # When to extend the lease of the hold.
        self.due = 0.0
        host, port = arguments.resource.rsplit(":", 1)
        self.resource = socket.create_connection((host, int(port)))
        self.answers = self.resource.makefile("r")

    def record(self, name, event, **more):
        self.history.record(self.number, name, event, **more)

    def run(self):
        while not self.orders.stop.is_set():
            self.turn(plan(self.number, self.arguments, self.random))
            self.orders.stop.wait(self.random.uniform(*self.arguments.think_ms))

    def turn(self, plan):
        name, lease = plan.name, self.arguments.lease_ms
        lock = self.client.lock(name, timeout=lease, blocking_timeout=plan.wait)
        self.record(name, "asked", mode="exclusive")
        try:
            if not lock.acquire():
                self.record(name, "refused", error="NotAcquired", timeout=True)
                return
        except Exception as error:  # clusters raise not only RedisError
            self.record(name, "refused", error=type(error).__name__, timeout=False)
            return
        self.due = time.monotonic() + lease / 3
        self.record(name, "granted")
        self.section(plan, lock)
        self.record(name, "releasing")
        try:
            lock.release()
            self.record(name, "released")
        except Exception as error:
            self.record(name, "released", error=type(error).__name__)

    def section(self, plan, lock):
        """Works as planned, or until redis-py no longer reports that the lock is held."""
        leave = time.monotonic() + plan.stay
        if plan.is_paused:
            self.record(plan.name, "did", what="paused")
            if not self.idle(plan.name, lock, plan.stay):
                return
        while True:
            if not self.is_held(lock):
                self.record(plan.name, "doubted")
                return
            self.record(plan.name, "held")
            self.orders.freeze()
            self.write(plan.name)
            if time.monotonic() >= leave or self.orders.stop.is_set():
                return
            if not self.idle(plan.name, lock, plan.step):
                return

    def is_held(self, lock):
        """Asks the server, because redis-py itself does not track the lease. An error counts as not held."""
        try:
            return lock.owned()
        except Exception:
            return False

    def idle(self, name, lock, length):
        """Waits, and extends the lease each time a third of it has passed.

        Returns early if the worker must stop. Returns false if the lock is lost.
        """
        end = time.monotonic() + length
        while True:
            wake = min(end, self.due)
            if self.orders.stop.wait(max(0, wake - time.monotonic())) or wake == end:
                return True
            if not self.extend(name, lock):
                return False

    def extend(self, name, lock):
        """Extends the lease. After an error that does not mean that the lock is lost, it is due again soon."""
        sent, lease = time.monotonic(), self.arguments.lease_ms
        try:
            lock.reacquire()
        except Exception as error:
            reason = type(error).__name__
            self.record(name, "did", what="renewed", error=reason)
            self.due = sent + lease / 10
            if not isinstance(error, LockNotOwnedError):
                return True
            self.record(name, "lost", reason=reason)
            return False
        self.record(name, "did", what="renewed")
        self.due = sent + lease / 3
        return True

    def write(self, name):
        self.resource.sendall(f"W {name} - {self.arguments.process}.{self.number}\n".encode())
        answer = self.answers.readline()
        if answer not in ("ok\n", "refused\n"):
            raise OSError(f"unexpected answer of the resource: {answer!r}")
        self.record(name, "wrote", accepted=answer == "ok\n")


class Orders:
    """The orders `stop`, `freeze-before-write UNTIL` and `block MS`. The end of the input means `stop`."""

    def __init__(self):
        self.stop = threading.Event()
        self.guard = threading.Lock()
        self.freeze_until = 0

    def obey(self):
        # PyDLL holds the interpreter's lock during a call, so `poll` blocks all Python threads.
        system = ctypes.PyDLL(None)
        for line in sys.stdin:
            match line.split():
                case ["stop"]:
                    break
                case ["freeze-before-write", until]:
                    with self.guard:
                        self.freeze_until = int(until)
                case ["block", duration]:
                    system.poll(None, 0, int(duration))
        self.stop.set()

    def freeze(self):
        """Stops the process if that was ordered and no other worker has done it yet. Returns when it continues."""
        with self.guard:
            until, self.freeze_until = self.freeze_until, 0
        if time.monotonic_ns() < until:
            # Signal this thread, so that the signal is delivered before the call returns. A signal to the process may
            # be delivered later.
            signal.raise_signal(signal.SIGSTOP)


def main():
    arguments = parse_arguments()
    history = History(arguments.process)
    client = connect(arguments.url, arguments.deployment)
    client.ping()
    history.record(0, "", "started", pid=os.getpid(), library=f"redis-py {redis.__version__}")

    orders = Orders()
    failed = []

    def run(worker):
        try:
            worker.run()
        except BaseException as error:
            failed.append(error)
            orders.stop.set()
            raise

    workers = [Worker(n, client, arguments, history, orders) for n in range(arguments.workers)]
    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for target in [orders.obey, history.sample_every_second]:
        threading.Thread(target=target, daemon=True).start()
    timer = threading.Timer(arguments.seconds, orders.stop.set)
    timer.daemon = True
    timer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not failed:
        history.record(0, "", "ended", counts={})
    # Exit directly. A normal exit could block on the thread that reads standard input.
    sys.stdout.flush()
    os._exit(1 if failed else 0)


main()
