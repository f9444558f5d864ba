"""CustomResourceDefinitions of a running server: kinds come into service, stay, and go with their objects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.embedded.apiserver.inprocess import InProcess

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUES = "/apis/phalanx.dev/v1/queues"
MERGE = "application/merge-patch+json"


def serving(data: Path, act: Callable[[InProcess], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with InProcess.started(data) as server:
            return await act(server)

    return asyncio.run(run())


async def code(server: InProcess, path: str) -> int:
    """Of a path whose answer may be plain text, as that of an unknown group is."""
    return (await server.api(server.request("GET", path))).code


def definition(plural: str = "queues", kind: str = "Queue", **names: Any) -> dict[str, Any]:
    weight = {"type": "integer", "default": 1}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"weight": weight}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.phalanx.dev"},
        "spec": {
            "group": "phalanx.dev",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [version],
        },
    }


async def until(server: InProcess, path: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first event of a watch, from the beginning, that is as wanted."""
    stream = await server.watch(f"{path}?watch=1&resourceVersion=0")
    try:
        while not wanted(event := await stream.next()):
            pass
    finally:
        await stream.close()
    return dict(event)


def conditions(event: dict[str, Any]) -> dict[str, str]:
    found = (event["object"].get("status") or {}).get("conditions") or ()
    return {one["type"]: one["status"] for one in found}


async def established(server: InProcess, **names: Any) -> None:
    created = await server.make(DEFINITIONS, definition(**names))
    name = created["metadata"]["name"]
    await until(
        server,
        DEFINITIONS,
        lambda event: event["object"]["metadata"]["name"] == name and conditions(event).get("Established") == "True",
    )


def test_an_established_definition_is_served_discovered_and_described(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        assert await code(server, QUEUES) == 404
        await established(server)
        created = await server.make(QUEUES, {"metadata": {"name": "a"}, "spec": {}})
        assert created["spec"] == {"weight": 1}
        groups = (await server.ask("GET", "/apis")).body["groups"]
        assert "phalanx.dev" in {group["name"] for group in groups}
        document = (await server.ask("GET", "/openapi/v3/apis/phalanx.dev/v1")).body
        assert "dev.phalanx.v1.Queue" in document["components"]["schemas"]

    serving(data_dir, act)


def test_kinds_and_objects_are_there_again_after_a_restart(data_dir: Path) -> None:
    async def make(server: InProcess) -> None:
        await established(server)
        await server.make(QUEUES, {"metadata": {"name": "a"}, "spec": {"weight": 2}})

    async def read(server: InProcess) -> Any:
        return (await server.ask("GET", f"{QUEUES}/a")).body["spec"]

    serving(data_dir, make)
    assert serving(data_dir, read) == {"weight": 2}


def test_a_changed_schema_counts_from_its_change(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        await established(server)
        changed = definition()
        properties = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["color"] = {"type": "string", "default": "red"}
        patched = await server.ask("PATCH", f"{DEFINITIONS}/queues.phalanx.dev", {"spec": changed["spec"]}, MERGE)
        assert patched.code == 200
        created = await server.make(QUEUES, {"metadata": {"name": "a"}, "spec": {}})
        assert created["spec"] == {"weight": 1, "color": "red"}

    serving(data_dir, act)


def test_a_name_that_is_in_use_keeps_a_definition_out_of_service(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        await established(server, shortNames=["q"])
        await server.make(DEFINITIONS, definition("quarries", "Quarry", shortNames=["q"]))
        event = await until(server, DEFINITIONS, lambda event: conditions(event).get("NamesAccepted") == "False")
        assert event["object"]["metadata"]["name"] == "quarries.phalanx.dev"
        assert (await server.api(server.request("GET", "/apis/phalanx.dev/v1/quarries"))).code == 404

    serving(data_dir, act)


def test_deleting_a_definition_deletes_its_objects_and_waits_for_their_finalizers(data_dir: Path) -> None:
    async def delete(server: InProcess) -> None:
        await established(server)
        await server.make(QUEUES, {"metadata": {"name": "free"}})
        await server.make(QUEUES, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
        assert (await server.ask("DELETE", f"{DEFINITIONS}/queues.phalanx.dev")).code == 200
        await until(server, QUEUES, lambda event: "deletionTimestamp" in event["object"]["metadata"])
        held = (await server.ask("GET", f"{DEFINITIONS}/queues.phalanx.dev")).body
        assert held["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert conditions({"object": held})["Terminating"] == "True"
        assert (await server.ask("POST", QUEUES, {"metadata": {"name": "late"}})).code == 405

    async def release(server: InProcess) -> None:
        """After a restart: the deletion goes on where it was."""
        assert [one["metadata"]["name"] for one in (await server.ask("GET", QUEUES)).body["items"]] == ["held"]
        stream = await server.watch(f"{DEFINITIONS}?watch=1&resourceVersion=0")
        await server.ask("PATCH", f"{QUEUES}/held", {"metadata": {"finalizers": None}}, MERGE)
        while (await stream.next())["type"] != "DELETED":
            pass
        await stream.close()
        assert await code(server, QUEUES) == 404

    serving(data_dir, delete)
    serving(data_dir, release)


def test_objects_go_with_their_definition_although_no_version_is_served(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        await established(server)
        await server.make(QUEUES, {"metadata": {"name": "a"}})
        versions = definition()["spec"]["versions"]
        versions[0]["served"] = False
        await server.ask("PATCH", f"{DEFINITIONS}/queues.phalanx.dev", {"spec": {"versions": versions}}, MERGE)
        stream = await server.watch(f"{DEFINITIONS}?watch=1&resourceVersion=0")
        await server.ask("DELETE", f"{DEFINITIONS}/queues.phalanx.dev")
        while (await stream.next())["type"] != "DELETED":
            pass
        await stream.close()
        assert server.api.engine.store.scan(("phalanx.dev", "queues")) == []

    serving(data_dir, act)


def test_an_apply_creates_updates_and_conflicts_over_the_api(data_dir: Path) -> None:
    apply = "application/apply-patch+yaml"

    async def act(server: InProcess) -> None:
        await established(server)
        queue = {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": "a"}, "spec": {"weight": 2}}
        first = await server.ask("PATCH", f"{QUEUES}/a?fieldManager=one", queue, apply)
        again = await server.ask("PATCH", f"{QUEUES}/a?fieldManager=one", queue, apply)
        assert (first.code, again.code) == (201, 200)
        assert again.body == first.body
        other = queue | {"spec": {"weight": 3}}
        refused = await server.ask("PATCH", f"{QUEUES}/a?fieldManager=two", other, apply)
        assert (refused.code, refused.body["reason"]) == (409, "Conflict")
        forced = await server.ask("PATCH", f"{QUEUES}/a?fieldManager=two&force=true", other, apply)
        assert forced.body["spec"] == {"weight": 3}
        assert [entry["manager"] for entry in forced.body["metadata"]["managedFields"]] == ["two"]

    serving(data_dir, act)
