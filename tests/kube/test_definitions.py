"""Our own kinds on a real server: what the schema lets in is what the readers read, and what is wrong is refused with
words; a definition of before is brought up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import CRDS, Kind
from phalanx.dialects.schema.policy import read_flavor, read_reservation
from phalanx.kube.install.definitions import DEFINITIONS, FLAVORS, QUEUES, RESERVATIONS, install
from phalanx.kube.read.queue import read_queue
from phalanx.model.node import Flavor, Reservation
from phalanx.model.pod import Toleration
from tests.dialects.test_queue import EVERYTHING
from tests.embedded.apiserver.process import ServerProcess


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    async def prepare(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as connection:
            await install(connection)

    with ServerProcess.started(tmp_path_factory.mktemp("server")) as server:
        asyncio.run(prepare(server.kubeconfig))
        yield server.kubeconfig


async def tried(kubeconfig: Path, kind: Kind, name: str, spec: Any) -> Any:
    """The object as the server keeps it; it is deleted again."""
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
    async with await Connection.open(kubeconfig) as connection:
        made = await connection.create(kind, body)
        await connection.delete(kind, name)
        return made


@pytest.mark.slow
async def test_everything_that_can_be_said_of_a_queue_is_kept_and_read(kubeconfig: Path) -> None:
    assert read_queue(await tried(kubeconfig, QUEUES, "vision", EVERYTHING)) == read_queue(
        {"metadata": {"name": "vision"}, "spec": EVERYTHING}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"parent": "q"}, "a queue must not be its own parent"),
        ({"quotas": [{"guaranteed": {"cpu": "-1"}}]}, "spec.quotas[0].guaranteed: Invalid value: an amount must not"),
        ({"quotas": [{"limit": {"cpu": -1}}]}, "spec.quotas[0].limit: Invalid value: an amount must not be negative"),
        ({"quotas": [{"guaranteed": {"cpu": 4}, "limit": {"cpu": "3900m"}}]}, "a limit must not be lower than the"),
        ({"quotas": [{"guaranteed": {"cpu": 4}, "lend": {"cpu": "4100m"}}]}, "lend must not exceed the guarantee"),
        ({"quotas": [{"lend": {"cpu": "1"}}]}, "lend must not exceed the guarantee"),
        ({"quotas": [{"limit": {"cpu": "x"}}]}, "spec.quotas[0].limit.cpu in body should match"),
        ({"quotas": [{"flavor": "a"}, {"flavor": "a"}]}, 'spec.quotas[1]: Duplicate value: {"flavor":"a"}'),
        ({"order": "random"}, 'supported values: "priority", "fifo", "fair", "tiered", "fill", "multifactor"'),
        ({"state": "shut"}, 'supported values: "open", "held", "draining", "closed"'),
        ({"preemption": {"minRun": -1}}, "spec.preemption.minRun: Invalid value: -1: a length of time must not be neg"),
        ({"preemption": {"grace": "soon"}}, "spec.preemption.grace in body should match"),
        ({"preemption": {"within": "always"}}, 'supported values: "never", "lower", "lower-or-newer"'),
        ({"weight": -1}, "spec.weight in body should be greater than or equal to 0"),
        ({"limits": {"perUser": {"running": -1}}}, "spec.limits.perUser.running in body should be greater than or eq"),
    ],
)
async def test_a_wrong_queue_is_refused_with_words(kubeconfig: Path, spec: Any, complaint: str) -> None:
    with pytest.raises(ApiRefusal) as raised:
        await tried(kubeconfig, QUEUES, "q", spec)
    assert complaint in str(raised.value)


@pytest.mark.slow
async def test_flavors_and_reservations_are_read(kubeconfig: Path) -> None:
    spec: Any = {"labels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    made = await tried(kubeconfig, FLAVORS, "spot", spec)
    assert read_flavor("spot", made["spec"]) == Flavor(
        name="spot", labels=(("pool", "spot"),), tolerations=(Toleration("spot", "Exists"),)
    )
    spec = {"start": "1970-01-01T00:01:00Z", "end": "1970-01-01T01:02:00+01:00", "nodes": ["a"], "users": ["u"]}
    made = await tried(kubeconfig, RESERVATIONS, "night", spec)
    assert read_reservation("night", made["spec"]) == Reservation(
        name="night", start_s=60.0, end_s=120.0, nodes=("a",), users=("u",)
    )
    with pytest.raises(ApiRefusal, match="the end of a reservation must be after its start"):
        await tried(kubeconfig, RESERVATIONS, "r", {**spec, "end": spec["start"]})
    with pytest.raises(ApiRefusal, match=r"without a key \(every taint is tolerated\), the operator must be Exists"):
        await tried(kubeconfig, FLAVORS, "f", {"tolerations": [{"operator": "Equal"}]})


@pytest.mark.slow
async def test_an_older_definition_is_brought_up_to_date(tmp_path: Path) -> None:
    """That of the first release: a queue with no more than `gang` and `parent`. Its queues stay."""
    old = {**DEFINITIONS[QUEUES], "metadata": {"name": "queues.phalanx.dev"}}
    version = old["spec"]["versions"][0]
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"gang": {"type": "boolean"}}}}}
    old["spec"] = {**old["spec"], "versions": [{**version, "schema": {"openAPIV3Schema": schema}}]}
    with ServerProcess.started(tmp_path) as server:
        async with await Connection.open(server.kubeconfig) as connection:
            await connection.create(CRDS, old)
            await asyncio.sleep(0)
            await install(connection)
            spec = {"limits": {"total": {"running": 3}}}
            made = await tried(server.kubeconfig, QUEUES, "q", spec)
            assert made["spec"]["limits"] == spec["limits"]
            before = await connection.get(CRDS, "queues.phalanx.dev")
            await install(connection)
            assert await connection.get(CRDS, "queues.phalanx.dev") == before
