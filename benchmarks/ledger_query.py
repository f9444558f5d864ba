"""How long `sacct` takes with a ledger of many jobs: `sacct -u USER -S now-7days`, `sacct -j`, `sreport` of a day.

    .venv/bin/python benchmarks/ledger_query.py --jobs 10000000 --users 500

A ledger is generated (years of jobs, evenly spread over users; the tables by `phalanx.ledger`), then each command runs
as a process of its own, as a user has it: start of Python, query, and printing. Prints JSON: medians in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from phalanx.ledger.store import Ledger, url_of
from phalanx.slurm.jobs.ask import Ask

JOBS_A_DAY = 10_000
_STATEMENT = (
    "INSERT INTO ledger_job (id, uid, job, kind, user_name, group_name, queue, account, qos, priority, submit_s, "
    "eligible_s, pods, requested, state, waits_for, end_s, exact_end, exit_code, number, words) "
    "VALUES (?,?,?,'Job','system:user',?,'lab','lab','normal',0,?,?,1,'{\"cpu\":1000}','COMPLETED','',?,1,0,?,?)"
)


def rows(count: int, users: int, now_s: float) -> Iterator[tuple[tuple[object, ...], tuple[object, ...]]]:
    step_s = 86400 / JOBS_A_DAY
    for number in range(1, count + 1):
        submit_s = now_s - (count - number) * step_s - 60
        at = number * 7919 % users
        user = f"u{at}" if at else "root"  # the one who is asked for has to be a user of this machine
        ask = Ask(name="wrap", user=user, uid=20001, gid=20001, group="lab", account="lab", partition="batch",
                  submit_s=submit_s, workdir="/home", stdout="slurm-%j.out")  # fmt: skip
        words = json.dumps({"job": msgspec.json.encode(ask).decode()})
        end_s = submit_s + 30
        yield (
            (number, str(number), f"default/slurm-{number}", user, submit_s, submit_s, end_s, number, words),
            (number, submit_s + 1, "COMPLETED", end_s, '["n1"]', '{"cpu":1000}', ""),
        )


def generate(file: Path, count: int, users: int) -> float:
    begun = time.perf_counter()
    Ledger.open(url_of(file)).close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA synchronous=OFF")
    jobs: list[tuple[object, ...]] = []
    starts: list[tuple[object, ...]] = []
    for job, start in rows(count, users, time.time()):
        jobs.append(job)
        starts.append(start)
        if len(jobs) == 50_000 or job[0] == count:
            connection.executemany(_STATEMENT, jobs)
            connection.executemany("INSERT INTO ledger_start VALUES (?,?,?,?,?,?,?)", starts)
            connection.commit()
            jobs, starts = [], []
    connection.close()
    return time.perf_counter() - begun


def timed(words: list[str], file: Path, runs: int) -> tuple[float, int]:
    """The median in seconds, and how many lines it printed."""
    code = f"import sys; from phalanx.slurm.main import main; sys.exit(main({words[0]!r}))"
    environment = {**os.environ, "PHALANX_LEDGER": url_of(file)}
    took, lines = [], 0
    for _ in range(runs):
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, "-I", "-c", code, *words[1:]], env=environment, capture_output=True,
                              text=True, check=False)  # fmt: skip
        took.append(time.perf_counter() - begun)
        if done.returncode:
            raise SystemExit(done.stderr)
        lines = done.stdout.count("\n")
    return statistics.median(took), lines


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--jobs", type=int, default=1_000_000)
    reader.add_argument("--users", type=int, default=500)
    reader.add_argument("--runs", type=int, default=5)
    asked = reader.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.sqlite3"
        made_s = generate(file, asked.jobs, asked.users)
        commands = {
            "user_7_days": ["sacct", "-u", "0", "-X", "-n", "-S", "now-7days"],
            "job": ["sacct", "-j", str(asked.jobs // 2), "-n"],
            "version": ["sacct", "--version"],
        }
        found: dict[str, object] = {"jobs": asked.jobs, "generated_s": round(made_s, 1),
                                    "file_gib": round(file.stat().st_size / 2**30, 2)}  # fmt: skip
        for name, words in commands.items():
            median_s, lines = timed(words, file, asked.runs)
            found[name] = {"median_s": round(median_s, 3), "lines": lines}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
