"""How long `sacct` takes with a ledger of many jobs: `sacct -u USER -S now-7days`, `sacct -j`, `sreport` of a day.

    .venv/bin/python benchmarks/ledger_query.py --jobs 10000000 --users 500

A ledger is generated (years of jobs, evenly spread over users; the tables by `phalanx.ledger`), then each command runs
as a process of its own, as a user has it: start of Python, query, and printing. Prints JSON: medians in seconds, by the
clock and of processor time, which other work on the machine leaves nearly as it is. `--ledger FILE` is made if it is
missing, and kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from phalanx.ledger.entry import url_of
from phalanx.ledger.store import Ledger
from phalanx.slurm.jobs.ask import Ask

JOBS_A_DAY = 10_000
# Job n of N: its user, when it was submitted; what it asks with both in the places of @USER and @TIME.
_JOBS = """
WITH RECURSIVE every(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM every WHERE n < :count),
each(n, user, at) AS (
    SELECT n, CASE n * 7919 % :users WHEN 0 THEN 'root' ELSE 'u' || (n * 7919 % :users) END,
           :now - 60 - (:count - n) * :step FROM every)
INSERT INTO ledger_job (id, uid, job, kind, user_name, group_name, queue, account, qos, priority, submit_s,
    eligible_s, pods, requested, state, waits_for, end_s, exact_end, exit_code, number, words)
SELECT n, n, 'default/slurm-' || n, 'Job', 'system:user', user, 'lab', 'lab', 'normal', 0, at, at, 1, '{"cpu":1000}',
    'COMPLETED', '', at + 30, 1, 0, n, replace(replace(:words, '@USER', user), '1234567890', printf('%d', at)) FROM each
"""
_STARTS = """
INSERT INTO ledger_start SELECT id, submit_s + 1, 'COMPLETED', end_s, '["n1"]', '{"cpu":1000}', '' FROM ledger_job
"""
_INDEXES = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"


def generate(file: Path, count: int, users: int) -> float:
    """Make a ledger as Phalanx makes it, with the jobs written by one statement and its indexes made afterwards. The
    user who is asked for has to be one of this machine: root."""
    begun = time.perf_counter()
    Ledger.open(url_of(file)).close()
    connection = sqlite3.connect(file)
    connection.executescript("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; PRAGMA cache_size=-500000")
    indexes = connection.execute(_INDEXES).fetchall()
    for name, _ in indexes:
        connection.execute(f'DROP INDEX "{name}"')
    ask = Ask(name="wrap", user="@USER", uid=20001, gid=20001, group="lab", account="lab", partition="batch",
              submit_s=1234567890, workdir="/home", stdout="slurm-%j.out")  # fmt: skip
    words = json.dumps({"job": msgspec.json.encode(ask).decode()})
    said = {"count": count, "users": users, "now": time.time(), "step": 86400 / JOBS_A_DAY, "words": words}
    connection.execute(_JOBS, said)
    connection.execute(_STARTS)
    for _, statement in indexes:
        connection.execute(statement)
    connection.commit()
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    return time.perf_counter() - begun


def timed(words: list[str], file: Path, runs: int) -> dict[str, object]:
    """Return the medians in seconds, and how many lines it printed."""
    code = f"import sys; from phalanx.slurm.main import main; sys.exit(main({words[0]!r}))"
    environment = {**os.environ, "PHALANX_LEDGER": url_of(file)}
    took, worked, lines = [], [], 0
    for _ in range(runs):
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-I", "-c", code, *words[1:]], env=environment, capture_output=True,
                              text=True, check=False)  # fmt: skip
        took.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        worked.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if done.returncode:
            raise SystemExit(done.stderr)
        lines = done.stdout.count("\n")
    clock_s, processor_s = (round(statistics.median(each), 3) for each in (took, worked))
    return {"clock_s": clock_s, "processor_s": processor_s, "lines": lines}


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--jobs", type=int, default=1_000_000)
    reader.add_argument("--users", type=int, default=500)
    reader.add_argument("--runs", type=int, default=5)
    reader.add_argument("--ledger", type=Path)
    asked = reader.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = asked.ledger or Path(folder) / "ledger.sqlite3"
        made_s = 0.0 if file.exists() else generate(file, asked.jobs, asked.users)
        commands = {
            "user_7_days": ["sacct", "-u", "0", "-X", "-n", "-S", "now-7days"],
            "job": ["sacct", "-j", str(asked.jobs // 2), "-n"],
            "version": ["sacct", "--version"],
        }
        found: dict[str, object] = {"jobs": asked.jobs, "generated_s": round(made_s, 1),
                                    "file_gib": round(file.stat().st_size / 2**30, 2)}  # fmt: skip
        found |= {name: timed(words, file, asked.runs) for name, words in commands.items()}
        found["load"] = os.getloadavg()[0]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
