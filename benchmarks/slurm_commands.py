"""Slurm's commands on a `phalanx up`: what `squeue` takes with many jobs, and jobs `true` from submission to their end.

    .venv/bin/python benchmarks/slurm_commands.py --waiting 10000 --jobs 1000 --submitters 8

First an array of held tasks waits (in parts of 1,000), and each command runs as a process of its own, as a user has it.
Then they are cancelled, and so many submitters call `sbatch --wrap true` one after the other; beside it the same number
of programs is started without a scheduler, and of empty Pythons, which no command can be faster than. Prints JSON:
`*_s` medians by the clock, `*_cpu_s` processor time of the command (the server's not), rates a second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from phalanx.slurm.main import install

PART = 1000  # tasks of an array
LOOK_S = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--waiting", type=int, default=2000, help="held jobs for squeue (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=100, help="jobs from submission to end (default: %(default)s)")
    parser.add_argument("--submitters", type=int, default=8, help="at a time (default: %(default)s)")
    parser.add_argument("--times", type=int, default=5, help="calls of each command (default: %(default)s)")
    given = parser.parse_args()
    found: dict[str, object] = {"load_before": round(os.getloadavg()[0], 1), "cpus": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as around:
        found |= in_turns(around, given.times)
        found |= queries(around, given.waiting, given.times)
        found |= throughput(around, given.jobs, given.submitters)
    found |= {"load_after": round(os.getloadavg()[0], 1)}
    print(json.dumps(found, indent=2))


@contextmanager
def cluster(folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield the environment in which Slurm's commands are those of a cluster of its own."""
    install(folder / "bin")
    words = [sys.executable, "-m", "phalanx.cli.app", "up", "--data", str(folder / "up"), "--port", "0", "--stop-pods"]
    words += ["--local-cpu", "512", "--local-memory", "256Gi", "--local-gpu", "0"]
    up = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert up.stdout is not None
        while "Ctrl-C stops it" not in (line := up.stdout.readline()):
            assert line, "phalanx up ended"
        path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
        around = {**os.environ, "KUBECONFIG": str(folder / "up" / "kubeconfig"), "PATH": path, "PWD": str(folder)}
        yield {**around, "UP_PID": str(up.pid)}
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=120)


def call(around: Mapping[str, str], *words: str) -> str:
    place = around["PWD"]
    return subprocess.run(words, env=around, cwd=place, check=True, capture_output=True, text=True).stdout


def timed(around: Mapping[str, str], *words: str) -> tuple[float, float]:
    """Return seconds by the clock, and of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun_s = time.perf_counter()
    call(around, *words)
    clock_s = time.perf_counter() - begun_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(around: Mapping[str, str], times: int) -> dict[str, float]:
    """Return the times of commands with the service and without, in turns. `*_service_cpu_s` is the processor time of
    the service and its forks."""
    found: dict[str, float] = {}
    service = next(pid for pid in children(around["UP_PID"]) if "slurm-commands" in command_line(pid))
    for name, words in {
        "squeue": ("squeue",),
        "sinfo": ("sinfo",),
        "sbatch": ("sbatch", "-H", "-o", "/dev/null", "--wrap", "true"),
    }.items():
        before_s = cpu_s(service)
        runs = [(timed(around, *words), timed({**around, "PHALANX_SLURM_SOCKET": ""}, *words)) for _ in range(times)]
        for at, case in enumerate(("served", "alone")):
            found[f"{name}_{case}_s"] = round(statistics.median(run[at][0] for run in runs), 4)
            found[f"{name}_{case}_cpu_s"] = round(statistics.median(run[at][1] for run in runs), 4)
        found[f"{name}_service_cpu_s"] = round((cpu_s(service) - before_s) / times, 4)
    call(around, "scancel", "--user", call(around, "id", "-un").strip())
    return found


def children(pid: str) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def command_line(pid: str) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def cpu_s(pid: str) -> float:
    """Return the processor time of a process and of its children that have ended (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def queries(around: Mapping[str, str], waiting: int, times: int) -> dict[str, float]:
    begun_s = time.perf_counter()
    for _ in range(0, waiting, PART):
        call(around, "sbatch", "-H", "-a", f"1-{min(waiting, PART)}", "--wrap", "true")
    made_s = time.perf_counter() - begun_s
    found = {"waiting": float(waiting), "array_tasks_submitted_a_second": round(waiting / made_s, 1)}
    for name, words in {
        "squeue": ("squeue",),
        "squeue_r": ("squeue", "-r"),
        "squeue_one": ("squeue", "-j", "1"),
    }.items():
        runs = [timed(around, *words) for _ in range(times)]
        found |= {f"{name}_s": round(statistics.median(run[0] for run in runs), 3)}
        found |= {f"{name}_cpu_s": round(statistics.median(run[1] for run in runs), 3)}
    call(around, "scancel", "--user", call(around, "id", "-un").strip())
    return found


def wait_until_empty(around: Mapping[str, str]) -> None:
    """Return once no job waits or runs."""
    while call(around, "squeue", "-h", "-r"):
        time.sleep(LOOK_S)  # a squeue takes processor time from what is measured, and none waits for an empty queue


def throughput(around: Mapping[str, str], jobs: int, submitters: int) -> dict[str, float]:
    """Return how many jobs a second came to their end, beside programs and Pythons that were just started."""
    wait_until_empty(around)
    rates = {
        "programs_a_second": started(around, jobs, submitters, "true"),
        "pythons_a_second": started(around, jobs, submitters, sys.executable, "-I", "-c", "pass"),
    }
    begun_s = time.perf_counter()
    submitted = started(around, jobs, submitters, "sbatch", "-o", "/dev/null", "--wrap", "true")
    wait_until_empty(around)
    done = jobs / (time.perf_counter() - begun_s)
    rates |= {"jobs_submitted_a_second": submitted, "jobs_done_a_second": done}
    return {"jobs": float(jobs), **{name: round(rate, 1) for name, rate in rates.items()}}


def started(around: Mapping[str, str], count: int, at_a_time: int, *words: str) -> float:
    begun_s = time.perf_counter()
    with ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(lambda _: call(around, *words), range(count)))
    return count / (time.perf_counter() - begun_s)


if __name__ == "__main__":
    main()
