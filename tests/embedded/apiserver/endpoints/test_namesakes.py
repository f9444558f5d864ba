"""`kubectl get queue` where several groups have queues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.embedded.apiserver.endpoints.test_definitions import DEFINITIONS, QUEUES, definition, serving, until
from tests.embedded.apiserver.inprocess import InProcess

OTHER = "scheduling.example.com"
OTHERS = f"/apis/{OTHER}/v1/queues"
THERE = f"kubectl get queues.{OTHER}"


def of_the_other_group() -> dict[str, Any]:
    found = definition(singular="queue")
    found["metadata"]["name"] = f"queues.{OTHER}"
    found["spec"]["group"] = OTHER
    return found


async def told(server: InProcess, path: str, agent: str = "kubectl/v1.36.0 (linux/amd64)") -> tuple[str, ...]:
    request = server.request("GET", path)
    request.headers[b"user-agent"] = agent.encode()
    return (await server.api(request)).warnings


def test_kubectl_hears_of_the_group_that_has_what_it_looks_for(tmp_path: Path) -> None:
    async def act(server: InProcess) -> None:
        for one in (definition(singular="queue"), of_the_other_group()):
            made = await server.make(DEFINITIONS, one)
            await until(server, DEFINITIONS, lambda event, name=made["metadata"]["name"]: served(event, name))
        assert await told(server, QUEUES) == ()  # neither has any
        await server.make(OTHERS, {"metadata": {"name": "theirs"}})
        assert await told(server, QUEUES) == (f"no queues.phalanx.dev, but queues.{OTHER}: {THERE}",)
        named = f"no queues.phalanx.dev theirs, but queues.{OTHER}: {THERE} theirs"
        assert await told(server, f"{QUEUES}/theirs") == (named,)
        assert await told(server, f"{QUEUES}/nowhere") == ()
        assert await told(server, QUEUES, "controller/v1") == ()  # a program names the group that it means
        await server.make(QUEUES, {"metadata": {"name": "ours"}})
        assert await told(server, QUEUES) == ()

    serving(tmp_path, act)


def test_kubectl_hears_of_a_kind_with_namespaces(tmp_path: Path) -> None:
    """Kueue's LocalQueues have the short name `queue`; kubectl asks for a Queue of Phalanx, in no namespace."""

    async def act(server: InProcess) -> None:
        local = definition("localqueues", "LocalQueue", singular="localqueue", shortNames=["queue"])
        local["metadata"]["name"] = f"localqueues.{OTHER}"
        local["spec"] |= {"group": OTHER, "scope": "Namespaced"}
        for one in (definition(singular="queue"), local):
            made = await server.make(DEFINITIONS, one)
            await until(server, DEFINITIONS, lambda event, name=made["metadata"]["name"]: served(event, name))
        await server.make("/api/v1/namespaces", {"metadata": {"name": "team"}})
        await server.make(f"/apis/{OTHER}/v1/namespaces/team/localqueues", {"metadata": {"name": "theirs"}})
        hint = f"but localqueues.{OTHER}: kubectl get localqueues.{OTHER}"
        assert await told(server, f"{QUEUES}/theirs") == (f"no queues.phalanx.dev theirs, {hint} theirs -n team",)
        assert await told(server, f"{QUEUES}/nowhere") == ()
        await server.make(QUEUES, {"metadata": {"name": "default"}})  # there from the start
        assert await told(server, QUEUES) == (f"no queues.phalanx.dev besides default, {hint}",)

    serving(tmp_path, act)


def test_discovery_lists_groups_that_are_not_in_use_after_those_that_are(tmp_path: Path) -> None:
    async def groups(server: InProcess) -> list[str]:
        found = [one["name"] for one in (await server.ask("GET", "/apis")).body["groups"]]
        return [name for name in found if name in {"phalanx.dev", OTHER, "example.org"}]

    async def act(server: InProcess) -> None:
        alone = definition("lamps", "Lamp", singular="lamp")
        alone["metadata"]["name"], alone["spec"]["group"] = "lamps.example.org", "example.org"
        for one in (definition(singular="queue"), of_the_other_group(), alone):
            made = await server.make(DEFINITIONS, one)
            await until(server, DEFINITIONS, lambda event, name=made["metadata"]["name"]: served(event, name))
        for name in ("default", "root"):  # Phalanx makes such objects itself
            await server.make(OTHERS, {"metadata": {"name": name}})
        assert await groups(server) == ["example.org", OTHER, "phalanx.dev"]  # no other group has lamps
        await server.make(OTHERS, {"metadata": {"name": "theirs"}})
        assert (await groups(server))[-1] == "phalanx.dev"
        await server.make(QUEUES, {"metadata": {"name": "ours"}})
        await server.ask("DELETE", f"{OTHERS}/theirs")
        assert (await groups(server))[-1] == OTHER

    serving(tmp_path, act)


def served(event: dict[str, Any], name: str) -> bool:
    about = json.dumps(event["object"].get("status") or {})
    return event["object"]["metadata"]["name"] == name and '"Established"' in about
