"""Plant bugs in the core, one at a time, and count the worlds until one is noticed.

`python -m tests.reference.planted [WORLDS] [NAME ...]` plays the worlds of the reference (1,000 without a number) with
each bug, or with the bugs whose text contains a NAME. `python -m tests.reference.planted whole-way [SEEDS] [NAME ...]`
plays seeds of `tests/whole_way` instead. The figures are in docs/benchmarks/planted-bugs.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Bug(NamedTuple):
    """A bug of a rule, or a bug in reading and writing objects (`rule` is then "objects"). To plant it, the text
    `right` in one file of `src/phalanx` is replaced by `wrong`."""

    rule: str
    text: str
    path: str
    right: str
    wrong: str


BUGS = (
    Bug(
        "R3",
        "a pod that was told to go is still charged to its queue",
        "core/fold/charging.py",
        "pods = list(record.kept())",
        "pods = list(record.placed)",
    ),
    Bug(
        "R4",
        "a nomination is not redeemed while a later one overfills its node",
        "core/preemption/nomination.py",
        "is_overcommitted(cluster, row, nominated_later(cluster, record, row))",
        "is_overcommitted(cluster, row, {})",
    ),
    Bug(
        "R6",
        "a `fifo` queue goes by priority",
        "core/order/next_job.py",
        "if branch.order is QueueOrder.FIFO and key.kind != Kind.REPLACEMENT:",
        "if False:",
    ),
    Bug(
        "R7",
        "a share counts what is guaranteed",
        "core/quota/shares.py",
        "beyond = used.get(key, 0) - guaranteed.get(key, 0)",
        "beyond = used.get(key, 0)",
    ),
    Bug(
        "R7",
        "weights of queues are overlooked",
        "core/quota/shares.py",
        "return DominantShare(0, ratio / weight) if",
        "return DominantShare(0, ratio) if",
    ),
    Bug(
        "R9",
        "a limit is compared with the usage before the request",
        "core/quota/ledger.py",
        "if allowed is not None and account.total.get(key, 0) + asked > allowed:",
        "if allowed is not None and account.total.get(key, 0) > allowed:",
    ),
    Bug(
        "R9",
        "what queues keep for themselves is lent",
        "state/queues/quota.py",
        "self.kept[key] = max(0, amount - _sane(lends[key]))",
        "self.kept[key] = 0",
    ),
    Bug(
        "R10",
        "pods above minimums are placed in the first pass",
        "core/cycle/intake/surplus.py",
        "return minimum_gang(state.cluster, offer.gang)",
        "return flavor_assignment.capped_gang(state.cluster, state.ledger, offer)",
    ),
    Bug(
        "R10",
        "the next pod above a minimum goes to the richest queue",
        "core/cycle/intake/surplus.py",
        "else min(best, key=lambda each: self.standing(branch, *each))[1]",
        "else max(best, key=lambda each: self.standing(branch, *each))[1]",
    ),
    Bug(
        "R13",
        "a preemptor does not respect the reservation",
        "core/preemption/guard.py",
        "return context if place is None else replace(context, place=place, is_guarded=True)",
        "return context",
    ),
    Bug(
        "R14",
        "the head of a strict queue blocks no job",
        "core/cycle/steps.py",
        "self.tournament.reject_head(holds_up=holds_up)",
        "self.tournament.reject_head(holds_up=False)",
    ),
    Bug(
        "R15",
        "a job may preempt jobs of equal priority in its queue",
        "core/preemption/policy.py",
        "clamped_priority(self.job.priority) - 1 if",
        "clamped_priority(self.job.priority) if",
    ),
    Bug(
        "R15",
        "a queue at its guarantee still loses jobs",
        "core/preemption/policy.py",
        "return any(total.get(key, 0) > guaranteed.get(key, 0) for key in keys)",
        "return any(total.get(key, 0) >= guaranteed.get(key, 0) for key in keys)",
    ),
    Bug(
        "R15",
        "a job that was preempted before needs no clearer advantage",
        "core/preemption/policy.py",
        "self._hurdle = 2.0 ** min(self.cluster.jobs[job.id].preempted + again, HIGHEST_HURDLE)",
        "self._hurdle = 1.0",
    ),
    Bug(
        "R15",
        "the preemptor's own request does not count in its guarantee",
        "core/preemption/policy.py",
        "return all(total.get(key, 0) + self._amounts[key] <= guaranteed.get(key, 0) for key in keys)",
        "return all(total.get(key, 0) <= guaranteed.get(key, 0) for key in keys)",
    ),
    Bug(
        "R16",
        "jobs that may not be preempted are preempted",
        "core/preemption/policy.py",
        'below &= residents.of_jobs("preemptible").astype(np.bool_)',
        "pass",
    ),
    Bug(
        "R16",
        "the minimum run time is ignored",
        "core/preemption/policy.py",
        'below &= residents.of_jobs("started_s") <= latest[queue]',
        "pass",
    ),
    Bug(
        "R16",
        "the hourly budget allows one job more",
        "core/preemption/policy.py",
        "return allowed - spent.get(queue, 0)",
        "return allowed + 1 - spent.get(queue, 0)",
    ),
    Bug(
        "R18",
        "victims that are not needed are not restored",
        "core/preemption/victim_sets.py",
        "return not any(self._is_spare(candidate, chosen) for candidate in self._members(chosen))",
        "return True",
    ),
    Bug(
        "R19",
        "the fewest gangs count before the lowest priority",
        "core/preemption/victim_sets.py",
        "for cost in reversed(costs)",
        "for cost in (*reversed(costs[3:]), costs[1], costs[2], costs[0])",
    ),
    Bug(
        "R20",
        "a `fifo` queue preempts jobs that came earlier",
        "core/preemption/policy.py",
        "below &= (queue != own) | self._submitted_later()",
        "pass",
    ),
    Bug(
        "R20",
        "a preemptor beyond its guarantee takes what other queues may reclaim",
        "core/preemption/candidates.py",
        "return any(self.rights.takes_too_much(queue, self._lost) for queue in queues)",
        "return False",
    ),
    Bug(
        "R20",
        "a victim may preempt its preemptor afterwards",
        "core/preemption/search.py",
        "return not self.candidates.could_return(self.offer.charge)",
        "return True",
    ),
    Bug(
        "R22",
        "growth preempts beyond its queue's guarantee",
        "core/preemption/policy.py",
        "if keys and self._stays_within(branch, keys):",
        "if True:",
    ),
    Bug(
        "R23",
        "an overdue nomination does not move",
        "core/cycle/intake/nominated.py",
        "elif next_step is NominationState.KEPT and state.now_s >= record.nominated_until_s:",
        "elif False:",
    ),
    Bug(
        "R23",
        "a nomination stays though too little will be released",
        "core/preemption/nomination.py",
        "return NominationState.KEPT if leave_enough(cluster, short, others) else NominationState.BROKEN",
        "return NominationState.KEPT",
    ),
)

OBJECT_BUGS = (
    Bug(
        "objects",
        "a pod that has ended keeps its node",
        "kube/gang/lifecycle/gang.py",
        "if pod.over:",
        "if False:",
    ),
    Bug(
        "objects",
        "the seat of a lost pod is not vacated",
        "kube/gang/lifecycle/gang.py",
        "self.state.parts.seating.vacate(pod)",
        "pass",
    ),
    Bug(
        "objects",
        "a job that was deleted while it waited is not removed",
        "kube/gang/lifecycle/reconcile.py",
        "        if known is not None:\n",
        "        if False:\n",
    ),
    Bug(
        "objects",
        "a job that its user suspends stays charged",
        "kube/gang/lifecycle/interruptions.py",
        "if job.suspended and not job.finished and job.uid not in start.resuming:",
        "if False:",
    ),
    Bug(
        "objects",
        "a start goes on although a member of it was deleted",
        "kube/gang/lifecycle/interruptions.py",
        'gone = parts.start.short_member() if parts.start.record.gang else ""',
        'gone = ""',
    ),
    Bug(
        "objects",
        "the end of a gang is not reported while it runs",
        "kube/gang/lifecycle/reconcile.py",
        "if gang.objects.idle:\n        finish(gang, parts)\n        return\n    if (end :=",
        "if (end :=",
    ),
    Bug(
        "objects",
        "placements for seats that no longer exist are not given back",
        "kube/gang/seats/seating.py",
        "self._start.effects.emit_event(Released(self._start.id, (slot,)))",
        "pass",
    ),
    Bug(
        "objects",
        "the node of a pod whose binding was not answered is not reported",
        "kube/gang/seats/seating.py",
        "if seat.node != pod.node:",
        "if False:",
    ),
    Bug(
        "objects",
        "a succeeded bare pod keeps its seat",
        "kube/gang/seats/seating.py",
        'pod.phase == "Succeeded" or not self._has_driver()',
        "False",
    ),
    Bug(
        "objects",
        "seats that a smaller Job no longer uses are kept",
        "kube/gang/seats/seating.py",
        "self._barrier.release(self._seats.surplus(row.number, seats))",
        "pass",
    ),
    Bug(
        "objects",
        "the capacity of a node is not checked before the first binding",
        "kube/gang/seats/bind_barrier.py",
        "        lost = self._claim(seats)\n        if lost:",
        "        lost = set[str]()\n        if lost:",
    ),
    Bug(
        "objects",
        "a refused binding is not tried again",
        "kube/gang/seats/bind_barrier.py",
        "due = [slot for slot, at_s in self.resting.items() if at_s <= now_s]",
        "due: list[Slot] = []",
    ),
    Bug(
        "objects",
        "a gang is bound before all its pods exist",
        "kube/gang/seats/bind_barrier.py",
        "if self._start.resuming or not self._seats.complete() or self._select_nodes():",
        "if self._start.resuming or self._select_nodes():",
    ),
    Bug(
        "objects",
        "a late preemption ends a later start",
        "kube/gang/departure.py",
        "if self._start.record.attempt != decided.attempt:",
        "if False:",
    ),
    Bug(
        "objects",
        "a restart forgets the starts of Jobs",
        "kube/gang/recorded_starts.py",
        "started: list[BatchJob | Pod] = [job for job in jobs if not job.suspended]",
        "started: list[BatchJob | Pod] = []",
    ),
    Bug(
        "objects",
        "pods that belong to no gang are not charged",
        "kube/capacity/foreign_pods.py",
        "if pod is None or not pod.charged:",
        "if True:",
    ),
)

WORLDS = """
import sys
from tests.reference.play import play
for seed in range(int(sys.argv[1])):
    report = play(seed)
    if report.rule:
        print("noticed in world", seed + 1, "as", report.rule, "--", report.text)
        break
else:
    print("not noticed in", sys.argv[1], "worlds")
"""

WHOLE_WAY = """
import sys
from tests import clockwork
from tests.whole_way.story import Story
for seed in range(int(sys.argv[1])):
    try:
        wrong = clockwork.run(Story(seed).play())
    except Exception as error:  # whatever it raises, the bug was noticed
        wrong = [repr(error)]
    if wrong:
        print("noticed in seed", seed + 1, "--", wrong[0].splitlines()[0])
        break
else:
    print("not noticed in", sys.argv[1], "seeds")
"""


def planted(bug: Bug, program: str, most: str) -> str:
    """Return what the program prints when it runs on a copy of the package with the bug."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "phalanx", Path(folder) / "phalanx")
        path = Path(folder) / "phalanx" / bug.path
        path.write_text(path.read_text().replace(bug.right, bug.wrong))
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
        done = subprocess.run(
            [sys.executable, "-c", program, most],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout.strip() or f"noticed by an exception: {done.stderr.strip().splitlines()[-1]}"


def main(arguments: list[str]) -> None:
    program, most, bugs = WORLDS, "1000", BUGS
    if arguments[:1] == ["whole-way"]:
        program, most, bugs, arguments = WHOLE_WAY, "30", (*OBJECT_BUGS, *BUGS), arguments[1:]
    if arguments and arguments[0].isdigit():
        most, arguments = arguments[0], arguments[1:]
    for bug in bugs:
        if not arguments or any(name in bug.text for name in arguments):
            print(f"{bug.rule} {bug.text}: {planted(bug, program, most)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
