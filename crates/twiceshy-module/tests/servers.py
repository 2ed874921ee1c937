"""Real servers with the module, on free loopback ports, each with a directory of its own."""

import itertools
import os
import random
import signal
import socket
import subprocess
import time

import redis

MODULE = os.environ["TWICESHY_MODULE"]
# Names and programs: "redis-7.0=/usr/bin/redis-server:valkey-9.1=..."
PROGRAMS = dict(entry.split("=") for entry in os.environ["TWICESHY_SERVERS"].split(":"))


# Each worker of pytest-xdist has ports of its own, below those that clients get.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PORTS = itertools.cycle(random.sample(range(12_000 + 2500 * (WORKER % 4), 14_500 + 2500 * (WORKER % 4)), 2500))


def free_ports(count):
    """Ports that nobody listens on; a cluster also needs those 10,000 above."""
    ports = []
    while len(ports) < count:
        port = next(PORTS)
        try:
            for each in (port, port + 10_000):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", each))
        except OSError:
            continue
        ports.append(port)
    return ports


class Server:
    """A server process. Restarting it keeps its port and its directory."""

    def __init__(self, program, directory, *options, module_options=(), module=MODULE, port=None):
        self.program, self.directory = program, directory
        self.port = port or free_ports(1)[0]
        self.options, self.module_options, self.module = options, module_options, module
        self.process = None
        self.start()

    def start(self):
        self.directory.mkdir(exist_ok=True, parents=True)
        load = ["--loadmodule", self.module, *self.module_options] if self.module else []
        # Redis 7 and Valkey refuse DEBUG unless it is allowed; Redis 6.2 does not know the option.
        debug = [] if "6.2" in self.program else ["--enable-debug-command", "yes"]
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--dir", str(self.directory), *debug, *self.options, *load],
            stdout=self.log, stderr=self.log,
        )
        self.client = redis.Redis(port=self.port, socket_timeout=30)
        self.wait_until_it_answers()

    def wait_until_it_answers(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                self.client.ping()
                return
            except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    text = (self.directory / "log").read_text(errors="replace")
                    raise RuntimeError(f"{self.program} does not start:\n{text[-3000:]}")
                time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            # A process that is stopped has to go on to end.
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()

    def restart(self):
        self.stop()
        self.start()

    def log_text(self):
        return (self.directory / "log").read_text(errors="replace")


def wait_until(condition, seconds=30, what="the condition"):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        time.sleep(0.02)
