"""Compute rows and pages of jobs, and rows of queues, from the scheduler's own state. The scheduler serves them to
commands.

    /apis/visibility.phalanx.dev/v1/queues/-/row
    /apis/visibility.phalanx.dev/v1/namespaces/NAMESPACE/jobs/-/row
    /apis/visibility.phalanx.dev/v1/namespaces/NAMESPACE/jobs/NAME/page

The namespace `-` selects all namespaces. RBAC controls the access: the verb `get` on `queues/row`, `jobs/row` and
`jobs/page`. Reasons name other jobs, so only users who may see all jobs should have these rights. All users may read
`queues/summary` and `jobs/reason`.

The scheduler cannot decide while it computes a response. So a response is used again for ten times as long as its
computation took. If another job was submitted since, the response is only used for as long as its computation took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.numbers.fetching import ALL, VERSION
from phalanx.cli.cluster.visibility import Ask
from phalanx.cli.views import queue_view
from phalanx.cli.views.entry_view import last_entry
from phalanx.cli.views.job.job_page import page, whole_record
from phalanx.cli.views.job.present import PresentState
from phalanx.cli.views.job.reading import live_view, views
from phalanx.client.connection import Object
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, Kind
from phalanx.dialects.enabled import DIALECTS
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.ledger.entry import JobEntry
from phalanx.state.cluster import Cluster

_AGAIN = 10  # a response is reused for this multiple of its computing time


class _Known(NamedTuple):
    """A response. `at_s`: the time of its computation, on the monotonic clock. `newest`: the newest job when it was
    computed.
    `took_s`: the time that the computation took."""

    answer: Object
    newest: str
    at_s: float
    took_s: float

    @property
    def until_s(self) -> float:
        return self.at_s + _AGAIN * self.took_s


class ServedViews:
    """The rows and pages of one scheduler. `now_s`: a function that returns the present time. `starts`: a function that
    returns job id -> expected start (seconds since the epoch), for jobs with a known expected start. `ledger`: the URL
    of the scheduler's ledger."""

    def __init__(
        self,
        cluster: Cluster,
        world: KubeWorld,
        informers: Callable[[Kind], Informer],
        now_s: Callable[[], float],
        starts: Callable[[], Mapping[str, float]],
        ledger: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._cluster = cluster
        self._present = PresentState(cluster, world, informers, now_s, starts)
        self._known: dict[tuple[str, bool, bool], _Known] = {}

    def answer(self, path: Sequence[str], query: Mapping[str, str]) -> Ask | None:
        """Return a function that returns the response to a request for `path` below the API group, and may be called in
        another thread. Return None if the path is not that of rows or of a page."""
        match tuple(path):
            case (version, "queues", name, "row") if (version, name) == (VERSION, ALL):
                found = self._queue_rows()
            case (version, "namespaces", namespace, "jobs", name, "row") if (version, name) == (VERSION, ALL):
                flags = (query.get("finished") == "true", query.get("recorded") == "true")
                found = self._rows("" if namespace == ALL else namespace, *flags)
            case (version, "namespaces", namespace, "jobs", name, "page") if version == VERSION:
                page, job = self._page(f"{namespace}/{name}"), f"{namespace}/{name}"
                return lambda: {**page, "entry": self._entry(job)}
            case _:
                return None
        return lambda: found

    def _rows(self, namespace: str, finished: bool, recorded: bool) -> Object:
        began_s, newest = time.monotonic(), next(reversed(self._cluster.jobs), "")
        self._known = {key: each for key, each in self._known.items() if began_s < each.until_s}
        known = self._known.get((namespace, finished, recorded))
        if known is not None and (known.newest == newest or began_s < known.at_s + known.took_s):
            return known.answer
        snapshot = self._present.snapshot()
        starts = snapshot.starts or {}
        found: Object = {
            "kind": "JobRowList",
            "now_s": snapshot.now_s,
            "live": len(self._cluster.jobs),
            "items": [
                view.row(starts.get(view.id), snapshot.now_s, recorded=recorded)
                for view in views(snapshot, namespace, finished=finished)
            ],
        }
        at_s = time.monotonic()
        self._known[namespace, finished, recorded] = _Known(found, newest, at_s, at_s - began_s)
        return found

    def _queue_rows(self) -> Object:
        return {"kind": "QueueTable", **queue_view.table_of(queue_view.views(self._present.snapshot()))}

    def _page(self, job: str) -> Object:
        snapshot = self._present.snapshot()
        view = live_view(snapshot, job)
        if view is None:
            return {"kind": "Status", "status": "Failure", "code": 404, "message": f"no job {job} waits or runs"}
        return {
            "kind": "JobPage",
            "text": page(view, snapshot),
            "record": whole_record(view, snapshot),
            "unused": without_effect(job, snapshot),
        }

    def _entry(self, job: str) -> JobEntry | None:
        """Return the job's last entry in the ledger; None if there is none, or if the ledger cannot be read."""
        if self._ledger is None:
            return None
        from phalanx.ledger.store import LedgerError

        with suppress(LedgerError):
            return last_entry(self._ledger, job)
        return None


def without_effect(job: str, snapshot: Snapshot) -> list[str]:
    """Return notes about settings of the job that belong to another scheduler's API and have no effect in Phalanx, each
    with the reason."""
    gang = snapshot.gangs.get(job)
    found: dict[str, None] = {}
    jobs = [(one.adapter.kind, one.key) for one in gang.objects.jobs.values()] if gang is not None else []
    pods = [(PODS, pod.key) for pod in gang.objects.pods.values() if pod.owner is None] if gang is not None else []
    for kind, key in (*jobs, *pods):
        if (obj := snapshot.objects.get(kind, {}).get(key)) is not None:
            found |= dict.fromkeys(text for each in DIALECTS.values() for text in each.notes(kind.name, obj))
    return list(found)
