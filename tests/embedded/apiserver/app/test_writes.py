"""`apiserver/app/writes.py`: the rights that updates and patches need, and objects that are missing."""

from __future__ import annotations

from collections.abc import Callable

from tests.embedded.apiserver.app.ada import APPLY, JSON_PATCH, LEASES, MAPS, MERGE, as_ada, grant, rule
from tests.embedded.apiserver.inprocess import InProcess, Scene


def test_a_put_or_apply_that_creates_needs_the_right_to_create(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await grant(server, "leases", rule("leases", "update", "patch", group="coordination.k8s.io"))
        ada, lease = as_ada(server), {"metadata": {"name": "l"}, "spec": {}}
        named = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        put = await ada.ask("PUT", f"{LEASES}/l", named)
        applied = await ada.ask("PATCH", f"{LEASES}/l?fieldManager=m", named, APPLY)
        for found in (put, applied):
            assert found.code == 403
            assert 'cannot create resource "leases" in API group "coordination.k8s.io"' in found.body["message"]
        made = await server.make(LEASES, lease)
        named["metadata"] = {"name": "l", "resourceVersion": made["metadata"]["resourceVersion"]}
        assert (await ada.ask("PUT", f"{LEASES}/l", named)).code == 200
        named["metadata"] = {"name": "l"}
        assert (await ada.ask("PATCH", f"{LEASES}/l?fieldManager=m&force=true", named, APPLY)).code == 200

    play(scene)


def test_a_patch_of_a_missing_object_is_not_found_before_its_body_is_read(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        for media in (MERGE, JSON_PATCH):
            assert (await server.ask("PATCH", f"{MAPS}/gone", "no patch", media)).code == 404
        assert (await server.ask("PATCH", f"{MAPS}/gone", {}, "application/json")).code == 415

    play(scene)
