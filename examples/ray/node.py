"""One node of a Ray cluster: `node.py head` runs the head and the job, `node.py worker` joins until the head is gone.

The job counts words of a text whose counts are known, in as many tasks as there are worker CPUs, all at once: they
wait for each other, so they prove that every worker takes part.
"""

import collections
import json
import os
import socket
import subprocess
import sys
import time

HEAD, PORT = os.environ["HEAD"], 6399  # not a port that Ray gives its workers (10002 and above)
IP, WORKERS = os.environ["POD_IP"], int(os.environ["WORKERS"])
TEXT = "one ring to rule them all one ring to find them " * 500


def start(*more: str, attempts: int = 1) -> None:
    """`ray start`. Pods that are processes of one machine must not give their Ray workers the same ports."""
    command = ["ray", "start", f"--node-ip-address={IP}", "--disable-usage-stats", *more]
    if IP.startswith("127."):
        first = 20000 + 200 * int(IP.rpartition(".")[2])
        command += [f"--min-worker-port={first}", f"--max-worker-port={first + 199}"]
    for left in reversed(range(attempts)):
        if not subprocess.run(command, check=not left).returncode:
            return


def head() -> None:
    start("--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false")
    try:
        job()
    finally:
        subprocess.run(["ray", "stop", "--grace-period=5"], check=True)


def job() -> None:
    import ray

    ray.init(address=f"{IP}:{PORT}", _node_ip_address=IP, log_to_driver=True)
    while ray.cluster_resources().get("CPU", 0) < WORKERS:
        time.sleep(0.2)

    @ray.remote(num_cpus=1)
    class Meeting:
        """Whoever came; one for all tasks."""

        def __init__(self) -> None:
            self.hosts: set = set()

        def come(self, host: str) -> int:
            self.hosts.add(host)
            return len(self.hosts)

    @ray.remote(num_cpus=1)
    def count(words: list, meeting: object) -> tuple:
        here = socket.gethostname()
        while ray.get(meeting.come.remote(here)) < WORKERS:
            time.sleep(0.1)
        return here, collections.Counter(words)

    words, meeting = TEXT.split(), Meeting.options(num_cpus=0).remote()
    parts = ray.get([count.remote(words[number::WORKERS], meeting) for number in range(WORKERS)])
    total = sum((part for _, part in parts), collections.Counter())
    result = {"hosts": sorted(host for host, _ in parts), "counts": dict(total), "ray": ray.__version__}
    print("RESULT " + json.dumps(result), flush=True)
    ray.shutdown()


def worker() -> None:
    while not reachable():
        time.sleep(0.2)
    # On a busy machine Ray gives up its own start after 30 s.
    start(f"--address={socket.gethostbyname(HEAD)}:{PORT}", "--num-cpus=1", attempts=4)
    while reachable():
        time.sleep(0.5)


def reachable() -> bool:
    try:
        socket.create_connection((HEAD, PORT), 60).close()
    except OSError:
        return False
    return True


{"head": head, "worker": worker}[sys.argv[1]]()
