"""A queue as people see it: how it starts jobs, and what is in it. Pure: a snapshot in, rows out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from phalanx.cli.snapshot import Snapshot
from phalanx.client.quantity import show
from phalanx.kube.queue import read_queue
from phalanx.model.job import Phase
from phalanx.model.shape import CPU

COLUMNS = ("QUEUE", "STARTS", "QUEUED", "RUNNING", "PODS PLACED", "CPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """`jobs`: phase -> how many. `held`: what its placed pods ask, per resource. `exists`: else jobs only name it."""

    name: str
    gang: bool
    exists: bool
    jobs: dict[Phase, int]
    held: dict[str, int]

    def record(self) -> dict[str, Any]:
        """For `--json`; docs/guide/command-line.md describes it."""
        jobs = {str(phase): self.jobs.get(phase, 0) for phase in Phase}
        return {"queue": self.name, "exists": self.exists, "gang": self.gang, "jobs": jobs, "held": self.held}


def views(snapshot: Snapshot) -> list[QueueView]:
    """Every queue, and every name of one that does not exist but has jobs waiting for it."""
    known = {queue.name: queue for queue in map(read_queue, snapshot.queues.values())}
    jobs: dict[str, Counter[Phase]] = {}
    held: dict[str, Counter[str]] = {}
    for record in snapshot.cluster.jobs.values():
        name = record.job.queue
        jobs.setdefault(name, Counter())[record.phase] += 1
        for slot in record.placements:
            held.setdefault(name, Counter()).update(dict(record.job.roles[slot.role].shape.requests))
    return [
        QueueView(
            name=name,
            gang=known[name].gang if name in known else True,
            exists=name in known,
            jobs=dict(jobs.get(name, {})),
            held=dict(held.get(name, {})),
        )
        for name in sorted({*known, *jobs})
    ]


def row(view: QueueView) -> list[str]:
    """The cells of `COLUMNS`."""
    starts = ("whole jobs" if view.gang else "pod by pod") if view.exists else "does not exist"
    running = view.jobs.get(Phase.RUNNING, 0) + view.jobs.get(Phase.STARTING, 0)
    queued = view.jobs.get(Phase.QUEUED, 0)
    return [
        *(view.name, starts, str(queued), str(running)),
        *(str(view.held.get("pods", 0)), show(CPU, view.held.get(CPU, 0))),
    ]
