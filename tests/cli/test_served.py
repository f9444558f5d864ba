"""The views of jobs and queues that the scheduler serves equal the views that commands would compute from all
objects."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from phalanx.cli.views import queue_view
from phalanx.cli.views.job import job_page, reading
from phalanx.cli.views.job.job_view import JobTableRow
from phalanx.cli.views.job.served import ServedViews
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.dialects.kueue.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.ledger.entry import JobEntry, ReasonEntry, url_of
from phalanx.ledger.store import Ledger
from phalanx.model.event import PolicySeen, Ticked
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.cli.test_job_page import KUEUE
from tests.cli.test_job_reading import CREATED, NOW_S, batch_job, foreign_pod, node, queue, snapshot

OBJECTS = (
    node("n1"),
    queue("default"),
    foreign_pod("dns", "n1", "3"),
    batch_job("wide", 2, "2"),
    batch_job("huge", 1, "100"),
)


def scheduler(
    *objects: dict[str, Any],
    starts: dict[str, float] | None = None,
    ledger: str = "",
    dialects: frozenset[str] = frozenset(),
) -> tuple[ServedViews, Cluster]:
    """Return the views that a scheduler serves after one cycle on these objects, and the scheduler's cluster state."""
    kinds = {kind.name: kind for kind in (NODES, PODS, JOBS, QUEUES, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS)}
    connection = Connection("http://nowhere", headers={}, tls=None)
    caches: dict[Kind, Informer] = {}

    def cache(kind: Kind) -> Informer:
        return caches.setdefault(kind, Informer(connection, kind))

    for obj in objects:
        cache(kinds[obj["kind"]]).observe(obj)
    world = KubeWorld(connection, cache, KubeSettings(dialects=dialects), lambda: NOW_S)
    if dialects:
        world.caches.look_up([kind for kind in caches if kind.group])
    cluster = Cluster()
    fold(cluster, (PolicySeen(Policy()), Ticked(NOW_S), *world.events()))
    fold_plan(cluster, decide(cluster, Policy(), NOW_S))
    return ServedViews(cluster, world, cache, lambda: NOW_S, lambda: starts or {}, ledger or None), cluster


def ask(served: ServedViews, *path: str, **query: str) -> dict[str, Any]:
    """Return the answer as a command reads it."""
    found = served.answer(("v1", *path), query)
    assert found is not None
    return msgspec.json.decode(msgspec.json.encode(found()))


def rows_of(answer: Any) -> list[JobTableRow]:
    """Return the rows as a command reads them."""
    return msgspec.convert(answer["items"], list[JobTableRow])


async def test_rows_are_those_that_commands_compute() -> None:
    served, _ = scheduler(*OBJECTS)
    answer = ask(served, "namespaces", "-", "jobs", "-", "row", recorded="true")
    assert rows_of(answer) == [view.row(None, NOW_S, recorded=True) for view in reading.views(snapshot(*OBJECTS))]
    assert (answer["live"], answer["now_s"]) == (2, NOW_S)
    other = ask(served, "namespaces", "other", "jobs", "-", "row")
    assert (other["live"], other["items"]) == (2, [])


async def test_rows_of_ended_jobs_are_also_those_of_other_schedulers_queues() -> None:
    ended = batch_job("ended", 1, "1")
    ended["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "l"}
    ended["status"] = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": CREATED}]}
    served, _ = scheduler(*OBJECTS, *KUEUE, ended, dialects=frozenset({"kueue"}))
    found = rows_of(ask(served, "namespaces", "-", "jobs", "-", "row", finished="true"))
    assert [row.id for row in found if row.state == "complete"] == ["default/ended"]


async def test_the_page_is_the_one_that_explain_computes(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ledger.sqlite3")
    entry = JobEntry(uid="u", job="default/wide", reasons=(ReasonEntry(at_s=NOW_S, code="NoRoom"),))
    with Ledger.open(url) as book:
        book.put([entry])
    served, _ = scheduler(*OBJECTS, ledger=url)
    seen = snapshot(*OBJECTS)
    answer = ask(served, "namespaces", "default", "jobs", "wide", "page")
    view = reading.live_view(seen, "default/wide")
    assert view is not None
    assert (answer["text"], answer["record"]) == (job_page.page(view, seen), job_page.whole_record(view, seen))
    assert msgspec.convert(answer["entry"], JobEntry) == entry
    assert ask(served, "namespaces", "default", "jobs", "none", "page")["code"] == 404
    assert served.answer(("v1", "namespaces", "default", "jobs", "wide", "reason"), {}) is None


async def test_expected_starts_are_the_schedulers_own() -> None:
    served, _ = scheduler(*OBJECTS, starts={"default/wide": NOW_S + 3600, "default/gone": NOW_S})
    answer = ask(served, "namespaces", "-", "jobs", "-", "row")
    expected = {row.id: row.expected for row in rows_of(answer)}
    assert expected == {"default/wide": "expected 01:03 UTC", "default/huge": ""}
    page = ask(served, "namespaces", "default", "jobs", "wide", "page")
    assert "expected start\n  expected 01:03 UTC" in page["text"]


async def test_queues_are_those_that_commands_compute() -> None:
    served, _ = scheduler(*OBJECTS)
    seen = queue_view.table_of(queue_view.views(snapshot(*OBJECTS)))
    assert ask(served, "queues", "-", "row")["items"] == msgspec.to_builtins(seen["items"])


async def test_a_costly_answer_is_given_again_for_a_while() -> None:
    served, cluster = scheduler(*OBJECTS)
    path = ("namespaces", "-", "jobs", "-", "row")
    assert ask(served, *path)["live"] == 2
    served._known = {key: known._replace(took_s=3600.0) for key, known in served._known.items()}
    first, newest = list(cluster.jobs)
    del cluster.jobs[first]
    assert ask(served, *path)["live"] == 2
    served._known = {key: known._replace(took_s=0.0) for key, known in served._known.items()}
    assert ask(served, *path)["live"] == 1
    served._known = {
        key: known._replace(at_s=time.monotonic() - 3600, took_s=1800.0) for key, known in served._known.items()
    }
    cluster.jobs["default/new"] = cluster.jobs[newest]
    assert ask(served, *path)["live"] == 2
