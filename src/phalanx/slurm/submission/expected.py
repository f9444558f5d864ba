"""Estimate when a job would start, for sbatch --test-only.

The estimate resembles conservative backfill. It assumes that running jobs end at their time limits. First it places the
pending jobs that come before this job. Then it finds the first time at which enough nodes have the resources that this
job requests. The estimate ignores reservations and limits of accounts. The scheduler does not use this estimate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.nodes import NodeInfo, nodes
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import compress
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import numbers
from phalanx.slurm.submission.asked.request import SubmissionRequest
from phalanx.slurm.submission.asked.size import CONFIGURATION, FAILED, choices
from phalanx.slurm.submission.creation import needs_of, require_reservation
from phalanx.slurm.submission.manifest import cpus_per_node

_LONG_S = 365 * 86400.0  # the assumed run time of a job without a time limit
_MOST_WAITING = 200  # the maximum number of earlier pending jobs that the estimate places
Amounts = tuple[int, int, int]  # CPUs, MiB, GPUs


@dataclass(slots=True, kw_only=True)
class _Room:
    """A node with the amounts that jobs hold on it. `held`: (begin, end, amounts) of each job, with times in seconds
    since the epoch."""

    node: NodeInfo
    held: list[tuple[float, float, Amounts]] = field(default_factory=list)

    def takes(self, asked: Amounts, begin_s: float, end_s: float) -> bool:
        """Return whether the amounts `asked` are free on the node from `begin_s` to `end_s`. The function adds up the
        amounts of all jobs in this period, even if they run one after the other. So the estimated start may be too
        late, but never too early."""
        some = [amounts for since_s, until_s, amounts in self.held if since_s < end_s and until_s > begin_s]
        used = [sum(each) for each in zip(*some, strict=True)] if some else [0, 0, 0]
        have = (self.node.cpus, self.node.memory_mib, self.node.gpus)
        return all(use + ask <= most for use, ask, most in zip(used, asked, have, strict=True))


def planned(api: ApiClient, here: Site, ask_for: Callable[[], Sequence[SubmissionRequest]]) -> str:
    """Return the line that sbatch --test-only prints. `ask_for`: a function that returns the request, or one request
    for each component. Raises Usage, with Slurm's message for --test-only, if the job is refused."""
    try:
        asked = ask_for()
        for one in asked:
            require_reservation(api, one.ask)
            needs_of(api, one, None)
    except Usage as error:
        *before, last = error.text.split("\n")
        if last.startswith(FAILED):
            before = [line for line in before if not line.endswith("can not be satisfied")]
            last = f"allocation failure: {last.removeprefix(FAILED)}"
        raise Usage("\n".join([*before, last]), error.status) from None
    return foretold(api, here, [one.ask for one in asked])


def foretold(api: ApiClient, here: Site, asks: Sequence[Ask]) -> str:
    """Return the line that `sbatch --test-only` prints for a job, or for the components of a heterogeneous job. Raises
    Usage."""
    now_s = time.time()
    rooms = [_Room(node=node) for node in nodes(api) if node.ready and not node.drained]
    known = jobs(api)
    for job in known:
        if job.state in ("RUNNING", "SUSPENDED"):
            end_s = (job.start_s or now_s) + _lasts_s(job.ask)
            _hold([room for room in rooms if room.node.name in job.nodes], job.ask, now_s, max(end_s, now_s + 1))
    for job in _before(known, asks[0])[:_MOST_WAITING]:
        if (placed := _place(rooms, here, [job.ask], job.ask.begin_s or now_s, now_s)) is not None:
            _hold(placed[1][0], job.ask, placed[0], placed[0] + _lasts_s(job.ask))
    found = _place(rooms, here, asks, max(asks[0].begin_s or now_s, now_s), now_s)
    if found is None:
        raise Usage(f"allocation failure: {CONFIGURATION}")
    begin_s, chosen = found
    cpus = sum(max(ask.cpus, sum(ask.cpus_of_nodes)) for ask in asks)
    listed = compress((room.node.name for some in chosen for room in some), ordered=True)
    where = f"nodes {listed} in partition {asks[0].partition}" if len(asks) == 1 else listed
    # As in Slurm, --test-only uses up a job number, and scripts read it.
    number = numbers.take(api, len(asks), here.first_job)
    return f"sbatch: Job {number} to start at {times.moment(begin_s)} using {cpus} processors on {where}"


def _before(known: Sequence[JobInfo], ask: Ask) -> list[JobInfo]:
    """Return the pending jobs that wait for capacity and have a higher priority than the job `ask`, the highest
    priority first."""
    waiting = [job for job in known if job.state == "PENDING" and job.reason in ("Priority", "Resources", "None")]
    return sorted((job for job in waiting if job.ask.nice <= ask.nice), key=lambda job: -job.priority)


def _lasts_s(ask: Ask) -> float:
    return ask.limit_min * 60.0 if ask.limit_min is not None else _LONG_S


def _asks(ask: Ask) -> Amounts:
    cpus = cpus_per_node(ask)
    return cpus, (ask.memory_mib or 0) * (cpus if ask.per_cpu else 1), ask.gpus_per_node


def _hold(rooms: Sequence[_Room], ask: Ask, begin_s: float, end_s: float) -> None:
    for room in rooms:
        room.held.append((begin_s, end_s, _asks(ask)))


def _place(
    rooms: Sequence[_Room], here: Site, asks: Sequence[Ask], least_s: float, now_s: float
) -> tuple[float, list[list[_Room]]] | None:
    """Return the earliest time at which nodes are free for all components, and the nodes of each component; None if
    there is no such time. `least_s`: the earliest allowed time."""
    ends = {until_s for room in rooms for _, until_s, _ in room.held if until_s > least_s}
    for begin_s in sorted({max(least_s, now_s), *ends}):
        chosen: list[list[_Room]] = []
        for ask in asks:
            free = [
                room for room in rooms
                if _may(here, ask, room.node) and room.takes(_asks(ask), begin_s, begin_s + _lasts_s(ask))
            ]  # fmt: skip
            if len(free) < ask.node_count:
                break
            chosen.append(free[: ask.node_count])
            _hold(chosen[-1], ask, begin_s, begin_s + _lasts_s(ask))
        for ask, some in zip(asks, chosen, strict=False):  # undo the trial placement
            for room in some:
                room.held.remove((begin_s, begin_s + _lasts_s(ask), _asks(ask)))
        if len(chosen) == len(asks):
            return begin_s, chosen
    return None


def _may(here: Site, ask: Ask, node: NodeInfo) -> bool:
    named = [here.partition(name) for name in ask.usable or [ask.partition]]
    allowed: Mapping[str, bool] = {
        "partition": any(one is None or not one.nodes or node.name in one.nodes for one in named),
        "wanted": not ask.wanted or node.name in ask.wanted,
        "excluded": node.name not in ask.excluded,
        "features": not ask.features or any(set(choice) <= set(node.features) for choice in choices(ask.features)),
    }
    return all(allowed.values())
