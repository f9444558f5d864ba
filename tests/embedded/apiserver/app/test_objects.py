"""`apiserver/app/objects.py`: responses to deletions."""

from __future__ import annotations

from collections.abc import Callable

from tests.embedded.apiserver.app.ada import MAPS
from tests.embedded.apiserver.inprocess import InProcess, Scene


def test_the_answer_to_a_deletion_is_a_status_or_the_object(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        made = await server.make(MAPS, {"metadata": {"name": "m"}})
        found = await server.ask("DELETE", f"{MAPS}/m")
        assert found.body == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "m", "kind": "configmaps", "uid": made["metadata"]["uid"]},
        }
        await server.make(MAPS, {"metadata": {"name": "kept", "finalizers": ["x.org/f"]}})
        waits = await server.ask("DELETE", f"{MAPS}/kept")
        assert waits.body["kind"] == "ConfigMap"
        assert waits.body["metadata"]["deletionTimestamp"]

    play(scene)


def test_a_deleted_collection_is_listed(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        path = "/api/v1/namespaces/team/configmaps"
        await server.make("/api/v1/namespaces", {"metadata": {"name": "team"}})
        for name in ("a", "b", "c"):
            await server.make(path, {"metadata": {"name": name, "labels": {"gone": str(name != "b")}}})
        found = await server.ask("DELETE", f"{path}?labelSelector=gone%3DTrue")
        assert [one["metadata"]["name"] for one in found.body["items"]] == ["a", "c"]
        left = (await server.ask("GET", path)).body["items"]
        assert [one["metadata"]["name"] for one in left] == ["b"]

    play(scene)
