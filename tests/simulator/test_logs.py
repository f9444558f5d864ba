"""Logs with all oddities of real logs: unknown fields, estimates that are too short, cancelled and checkpointed jobs,
jobs of no processors or of more than exist, times out of order. The result is compared with a reader and a scheduler
that the test has of its own, by the conventions of the format and the rules."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from phalanx import loop
from phalanx.simulator.readers import swf
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from tests.seeds import mostly_slow
from tests.simulator.builders import ends, starts
from tests.simulator.rules import Run, backfill

MACHINE = 16
HEADERS = (
    "; Version: 2.2\n; MaxNodes: 8\n; MaxProcs: 16\n; UnixStartTime: 820454400\n; Note: MaxProcs: 99 is only a note\n",
    ";MaxProcs:16\n;MaxNodes:   4\n",
    ";\tMaxNodes: 16 (one processor each)\n;; Computer: a test\n",
)


def log(seed: int, unknown: tuple[int, ...] = ()) -> str:
    """Return about sixty records, mostly of jobs that wait for each other. `unknown`: the way in which requested times
    are left out."""
    random = Random(seed)
    lines = [HEADERS[seed % len(HEADERS)]]
    at_s = 0
    for number in range(1, 61):
        at_s += random.choice((0, 0, 1, 5, 30))
        lines += records(random, number, max(0, at_s - random.choice((0, 0, 0, 40))), unknown)
        if random.random() < 0.05:
            lines.append("; a comment in between, and an empty line\n\n")
    return "".join(lines)


def records(random: Random, number: int, submit_s: int, unknown: tuple[int, ...]) -> list[str]:
    run_s = random.choice((-1, 0, 1, 7, 30, 60, 61, 90, 300))
    asked_s = random.choice((*unknown, run_s, run_s, run_s + 1, 2 * run_s, 60, 10, 600))
    size = random.choice((1, 1, 2, 3, 4, 8, 12, 16))
    allocated, requested = random.choice(((size, size), (size, -1), (size, 0), (size + 1, size), (-1, size), (-1, -1)))
    if random.random() < 0.03:
        requested = MACHINE + 1
    status = random.choice((1, 1, 1, 0, 5, -1))
    whole = record(number, submit_s, run_s, allocated, requested, asked_s, status)
    if run_s > 0 and random.random() < 0.1:  # it was checkpointed once
        parts = [
            record(number, submit_s, 5, allocated, requested, asked_s, part) for part in (2, random.choice((3, 4)))
        ]
        return [whole, *parts]
    return [whole]


def record(number: int, submit_s: int, run_s: int, allocated: int, requested: int, asked_s: int, status: int) -> str:
    asked = f"{run_s} {allocated} -1 -1 {requested} {asked_s} -1"
    return f"{number:5d} {submit_s:6d}  -1 {asked} {status} {1 + number % 3} 1 -1 1 -1 -1 -1\n"


def by_the_conventions(text: str) -> list[Run]:
    """Requested processors, else those allocated; killed at the limit; in order of submission, then of the file."""
    runs: dict[int, Run] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith(";"):
            continue
        number, submit_s, _, run_s, allocated, _, _, requested, asked_s, *_ = map(int, line.split())
        user = line.split()[11]
        size = requested if requested > 0 else allocated
        if number in runs or run_s <= 0 or size <= 0:
            continue
        limit_s = float(asked_s) if asked_s > 0 else float("inf")
        runs[number] = Run(str(number), submit_s, min(run_s, limit_s), size, limit_s, user)
    return sorted(runs.values(), key=lambda run: run.submit_s)


POLICIES = ("easy", "easy-sjbf", "conservative")
CASES = [
    *((policy, "user", ()) for policy in POLICIES),
    *((policy, "exact", (-1, 0)) for policy in POLICIES),
    *((policy, "last-two", ()) for policy in POLICIES),
    ("conservative", "user", (-1, 0)),
]


@pytest.mark.parametrize("seed", mostly_slow(range(12), fast=2, sample=6))
@pytest.mark.parametrize(("policy", "estimates", "unknown"), CASES)
def test_it_starts_and_ends_when_the_rules_say(
    tmp_path: Path, seed: int, policy: str, estimates: str, unknown: tuple[int, ...]
) -> None:
    path = tmp_path / "log.swf"
    path.write_text(log(seed, unknown))
    workload, runs = swf.read(path), by_the_conventions(path.read_text())
    assert [task.job.id for task in workload.tasks] == [run.job for run in runs]
    known = [run._replace(estimate_s=run.run_s) if estimates == "exact" else run for run in runs]
    fitting, last_two = [run for run in known if run.processors <= MACHINE], estimates == "last-two"
    right = backfill(fitting, MACHINE, policy, last_two=last_two)
    schedule = play(workload, built_in(policy), loop.step, estimates=estimates)
    assert starts(schedule) == {run.job: right.get(run.job) for run in runs}
    assert ends(schedule) == {run.job: right[run.job] + run.run_s if run.job in right else None for run in runs}


def test_who_waits_for_jobs_without_a_limit_holds_nobody_up(tmp_path: Path) -> None:
    """When that one starts cannot be foreseen, so nothing can delay it."""
    path = tmp_path / "log.swf"
    endless = record(1, 0, 100, 8, 8, -1, 1)
    path.write_text(HEADERS[0] + endless + record(2, 1, 50, 16, 16, 60, 1) + record(3, 2, 300, 8, 8, 300, 1))
    assert starts(play(swf.read(path), built_in("easy"), loop.step)) == {"1": 0, "2": 302, "3": 2}
