"""`embedded/apiserver/endpoints/subresources/scale.py`: `/scale` of an object, and who owns its number of replicas."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH, MERGE_PATCH
from phalanx.embedded.apiserver.endpoints.subresources.scale import scale_of, scaled
from tests.embedded.apiserver.inprocess import Answer, InProcess
from tests.embedded.apiserver.registry.test_crd import WIDGETS, widget


def test_the_scale_is_a_view_of_the_replicas() -> None:
    obj = widget("{image: abc, replicas: 2}", status={"replicas": 1})
    scale = scale_of(WIDGETS, obj)
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 1})
    assert scaled(WIDGETS, obj, {"spec": {"replicas": 5}})["spec"] == {"image": "abc", "replicas": 5}
    assert "spec" in scaled(WIDGETS, obj, {"spec": {"replicas": -1}}), "the schema of the resource refuses it"


SETS = "/apis/apps/v1/namespaces/default/replicasets"
MADE = {
    "metadata": {"name": "r"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


async def _apply(at: InProcess, manager: str, spec: Any, **metadata: Any) -> Answer:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec}
    return await at.ask("PATCH", f"{SETS}/r/scale?fieldManager={manager}", scale, APPLY_PATCH)


async def _owners(at: InProcess) -> list[tuple[str, str, str, bool]]:
    """Return who owns the replicas, of the entries in order: manager, operation, subresource, and if it has a time."""
    found = (await at.ask("GET", f"{SETS}/r")).body["metadata"].get("managedFields", [])
    return [
        (one["manager"], one["operation"], one.get("subresource", ""), "time" in one)
        for one in found
        if "f:replicas" in one["fieldsV1"]["f:spec"]
    ]


def test_an_applied_scale_owns_the_replicas(tmp_path: Path) -> None:
    async def play() -> None:
        async with InProcess.started(tmp_path / "data") as at:
            await at.make(f"{SETS}?fieldManager=maker", MADE)
            refused = await _apply(at, "ann", {"replicas": 5})
            assert refused.code == 409
            assert refused.body["message"].endswith('with "maker" using autoscaling/v1: .spec.replicas')
            assert await _owners(at) == [("maker", "Update", "", True)]
            forced = await _apply(at, "ann&force=true", {"replicas": 5})
            assert (forced.code, forced.body["kind"], forced.body["spec"]) == (200, "Scale", {"replicas": 5})
            assert await _owners(at) == [("ann", "Apply", "scale", False)]
            assert (await _apply(at, "bob", {"replicas": 5})).code == 200
            assert [owner[0] for owner in await _owners(at)] == ["ann", "bob"]
            refused = await _apply(at, "bob", {"replicas": 8})
            assert refused.body["message"].endswith('with "ann" with subresource "scale": .spec.replicas')

    asyncio.run(play())


def test_wrong_applied_scales_are_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with InProcess.started(tmp_path / "data") as at:
            await at.make(SETS, MADE)
            undeclared = await _apply(at, "ann", {"x": 1})
            assert (undeclared.code, ".spec.x: field not declared" in undeclared.body["message"]) == (500, True)
            other = await _apply(at, "ann&force=true", {"replicas": 3}, uid="abc")
            assert (other.code, 'replicasets/scale.apps "r": Precondition' in other.body["message"]) == (409, True)
            assert (await _apply(at, "ann&force=true", {"replicas": 3}, resourceVersion="1")).code == 409
            wrong = await at.ask("PATCH", f"{SETS}/r/scale", {"spec": {"replicas": "a"}}, MERGE_PATCH)
            assert (wrong.code, "is invalid: patch: Invalid value" in wrong.body["message"]) == (422, True)

    asyncio.run(play())


def test_a_scale_set_by_an_update_is_owned_through_scale(tmp_path: Path) -> None:
    async def play() -> None:
        async with InProcess.started(tmp_path / "data") as at:
            await at.make(f"{SETS}?fieldManager=maker", MADE)
            for replicas, owner in ((6, "one"), (9, "two"), (9, "three")):
                scale = {"metadata": {"name": "r"}, "spec": {"replicas": replicas}}
                assert (await at.ask("PUT", f"{SETS}/r/scale?fieldManager={owner}", scale)).code == 200
            assert await _owners(at) == [("two", "Update", "scale", False)]
            await at.ask("PATCH", f"{SETS}/r", {"metadata": {"managedFields": [{}]}}, MERGE_PATCH)
            refused = await _apply(at, "ann", {"replicas": 4})
            assert '"before-first-apply" with subresource "scale" using autoscaling/v1' in refused.body["message"]

    asyncio.run(play())
