"""Jobs chosen by user, queue and state, and calls for several jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.cli.cluster.jobs import choosing
from phalanx.cli.cluster.jobs.choosing import Filters, chosen, for_each, live_jobs
from phalanx.client.kind import JOBS, PODS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import QUEUE, USER
from tests.cli.found_jobs import COMPLETE, found_job
from tests.kube.double import Api, Client, job, pod

HELD = {"phalanx.dev/hold": "true"}


@pytest.mark.parametrize(
    ("filters", "holds"),
    [
        (Filters(user=("ada", "bob")), True),
        (Filters(user=("bob",)), False),
        (Filters(queue=("lab",)), True),
        (Filters(queue=("chem",)), False),
        (Filters(user=("ada",), queue=("chem",)), False),
        (Filters(state=("running",)), True),
        (Filters(state=("queued", "held")), False),
    ],
)
def test_all_filters_must_hold(filters: Filters, holds: bool) -> None:
    one = found_job(annotations={USER: "ada"}, labels={QUEUE: "lab"})
    assert filters.holds(one, {("job", "ns/train"): "running"}) is holds


def test_a_job_of_unknown_state_has_that_of_its_object_and_held_counts_first() -> None:
    assert Filters(state=("queued",)).holds(found_job(suspend=True, labels={QUEUE: "lab"}), {})
    held = found_job(suspend=True, labels={QUEUE: "lab"}, annotations=HELD)
    assert Filters(state=("held",)).holds(held, {("job", "ns/train"): "queued"})


async def nobody(*_: Any) -> Any:
    raise AssertionError("no state is needed")


def choose(*names: str, filters: Filters, states: Any = nobody, connection: Any = None) -> Any:
    return asyncio.run(chosen(connection, names, filters, "ns", None, False, states))


def test_names_and_filters_exclude_each_other_and_one_is_needed() -> None:
    with pytest.raises(PhalanxError, match="cannot be combined"):
        choose("train", filters=Filters(user=("ada",)))
    with pytest.raises(PhalanxError, match="no job is named"):
        choose(filters=Filters())


def test_jobs_that_are_over_are_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live(connection: Any, namespace: str) -> Any:
        return [found_job("a", labels={QUEUE: "lab"}), found_job("b", labels={QUEUE: "lab"}, status=COMPLETE)]

    monkeypatch.setattr(choosing, "live_jobs", live)
    assert [one.name for one in choose(filters=Filters(queue=("lab",)))] == ["a"]


async def test_live_jobs_are_those_of_queues_and_pods_of_their_own() -> None:
    api = Api()
    for obj in (job("a", 1), job("g1", 1, job="gang"), job("g2", 1, job="gang")):
        api.put(JOBS, obj)
    foreign = job("foreign", 1)
    del foreign["metadata"]["labels"]
    api.put(JOBS, foreign)
    api.put(PODS, pod("alone", "1", queue="default"))
    api.put(PODS, pod("other", "1", scheduler="default-scheduler", node="n"))
    found: Any = await live_jobs(Client(api), "")
    assert sorted((one.kind, one.name, len(one.members)) for one in found) == [
        ("gang", "gang", 2),
        ("job", "a", 1),
        ("pod", "alone", 1),
    ]


async def test_results_come_in_the_order_of_the_items_and_few_calls_at_a_time() -> None:
    now, most = 0, 0

    async def work(item: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(40 - item):
            await asyncio.sleep(0)
        now -= 1
        return item * 2

    assert await for_each(range(40), work) == [item * 2 for item in range(40)]
    assert most == choosing._AT_ONCE
