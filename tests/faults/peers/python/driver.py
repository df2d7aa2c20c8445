"""One client process of the published fault run, with redis-py's own Lock: tests/faults/run/peers.rs.

Events go to standard output as tests/faults/run/history.rs has them; `stop` and `block MS` come on standard input.
"""

import argparse
import ctypes
import json
import os
import random
import socket
import sys
import threading
import time
from urllib.parse import urlsplit

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel

STEP = 0.005


def span(text):
    first, last = text.split("-")
    return int(first) / 1000, int(last) / 1000


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--deployment", choices=["single", "sentinel", "cluster"], required=True)
    parser.add_argument("--process", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--names", required=True)
    parser.add_argument("--lease-ms", type=int, required=True)
    parser.add_argument("--wait-ms", type=int, required=True)
    parser.add_argument("--hold-ms", type=span, required=True)
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
    """Each event is written at once. The time is taken before all else."""

    def __init__(self, process):
        self.process = process
        self.guard = threading.Lock()

    def tell(self, worker, name, event, **more):
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
            self.tell(
                0,
                "",
                "sample",
                rss_kib=int(status["VmRSS"].split()[0]),
                threads=int(status["Threads"]),
                descriptors=len(os.listdir("/proc/self/fd")),
            )
            time.sleep(1)


class Worker:
    def __init__(self, number, client, arguments, told, stop):
        self.number = number
        self.client = client
        self.arguments = arguments
        self.told = told
        self.stop = stop
        self.random = random.Random(f"{arguments.seed} {arguments.process} {number}")
        self.names = [f"plain:{number}" for number in arguments.names.split(",")]
        host, port = arguments.resource.rsplit(":", 1)
        self.resource = socket.create_connection((host, int(port)))
        self.answers = self.resource.makefile("r")

    def tell(self, name, event, **more):
        self.told.tell(self.number, name, event, **more)

    def run(self):
        while not self.stop.is_set():
            self.turn(self.random.choice(self.names))
            self.stop.wait(self.random.uniform(*self.arguments.think_ms))

    def turn(self, name):
        lease = self.arguments.lease_ms / 1000
        lock = self.client.lock(name, timeout=lease, blocking_timeout=self.arguments.wait_ms / 1000)
        self.tell(name, "asked", mode="exclusive")
        try:
            if not lock.acquire():
                self.tell(name, "refused", error="NotAcquired", timeout=True)
                return
        except Exception as error:  # of a cluster not only RedisError
            self.tell(name, "refused", error=type(error).__name__, timeout=False)
            return
        # redis-py does not know when the lease ends. This is the user's own measure: a little late, and not told.
        end_of_lease = time.monotonic() + lease
        self.tell(name, "granted")
        self.section(name, end_of_lease)
        self.tell(name, "releasing")
        try:
            lock.release()
            self.tell(name, "released")
        except Exception as error:
            self.tell(name, "released", error=type(error).__name__)

    def section(self, name, end_of_lease):
        end = time.monotonic() + self.random.uniform(*self.arguments.hold_ms)
        while time.monotonic() < end and not self.stop.is_set():
            if time.monotonic() >= end_of_lease:
                self.tell(name, "doubted")
                return
            self.tell(name, "held")
            self.write(name)
            time.sleep(STEP)

    def write(self, name):
        self.resource.sendall(f"W {name} - {self.arguments.process}.{self.number}\n".encode())
        answer = self.answers.readline()
        if answer not in ("ok\n", "refused\n"):
            raise OSError(f"the resource says {answer!r}")
        self.tell(name, "wrote", accepted=answer == "ok\n")


def obey(stop):
    # PyDLL keeps the interpreter's lock: no other thread runs meanwhile.
    system = ctypes.PyDLL(None)
    for line in sys.stdin:
        match line.split():
            case ["stop"]:
                break
            case ["block", millis]:
                system.poll(None, 0, int(millis))
    stop.set()


def main():
    arguments = parse_arguments()
    told = History(arguments.process)
    client = connect(arguments.url, arguments.deployment)
    client.ping()
    told.tell(0, "", "started", pid=os.getpid(), library="redis-py")

    stop = threading.Event()
    failed = []

    def run(worker):
        try:
            worker.run()
        except BaseException as error:
            failed.append(error)
            stop.set()
            raise

    workers = [Worker(n, client, arguments, told, stop) for n in range(arguments.workers)]
    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for target, *args in [(obey, stop), (told.sample_every_second,)]:
        threading.Thread(target=target, args=args, daemon=True).start()
    timer = threading.Timer(arguments.seconds, stop.set)
    timer.daemon = True
    timer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not failed:
        told.tell(0, "", "ended", counts={})
    # Not by the usual way, on which a thread that reads the standard input may hold things up.
    sys.stdout.flush()
    os._exit(1 if failed else 0)


main()
