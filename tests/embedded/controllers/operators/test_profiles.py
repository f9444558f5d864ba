"""`controllers/operators/profiles.py`: profiles of another project, kept translated into objects of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import PRIORITY_CLASSES, Kind
from phalanx.embedded.controllers.operators.profiles import ProfileController
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Retry
from phalanx.embedded.controllers.runtime.recorder import EventRecorder

PROFILES = Kind(group="config.example", plural="profiles", name="Profile", namespaced=False)
POLICIES = Kind(group="policy.example", plural="policies", name="Policy", namespaced=False)
BINDINGS = Kind(group="policy.example", plural="bindings", name="Binding", namespaced=False)


class Translation:
    """Each profile becomes a policy with the priority of its class, and a binding if it is enabled."""

    kind, classes, made = PROFILES, PRIORITY_CLASSES, (POLICIES, BINDINGS)

    def objects(self, profile: Object, classes: Mapping[str, Object]) -> Sequence[tuple[Kind, Object]]:
        name, spec = profile["metadata"]["name"], profile["spec"]
        value = classes[spec["class"]]["value"] if spec["class"] in classes else 0
        policy = {"metadata": {"name": f"p-{name}"}, "spec": {"priority": value}}
        binding = {"metadata": {"name": f"b-{name}"}, "spec": {"policy": f"p-{name}"}}
        return [(POLICIES, policy), *([(BINDINGS, binding)] if spec["enabled"] else [])]


class Api:
    """The connection of the controller. Its answers go into the caches. `writes`: verb and name of each write."""

    def __init__(self) -> None:
        unused: Any = self
        self.caches = {kind: Informer(unused, kind) for kind in (PROFILES, PRIORITY_CLASSES, POLICIES, BINDINGS)}
        self.writes: list[str] = []
        self.refusal: ApiRefusal | None = None
        self._version = 0

    def put(self, kind: Kind, name: str, **fields: Any) -> Object:
        self._version += 1
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version), **fields.pop("metadata", {})}
        obj = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **fields}
        self.caches[kind].observe(obj)
        return obj

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        self.writes.append(f"create {body['metadata']['name']}")
        if self.refusal is not None:
            raise self.refusal
        return self.put(kind, body["metadata"]["name"], **body)

    async def update(self, kind: Kind, body: Object, *about: Any, **more: Any) -> Object:
        self.writes.append(f"replace {body['metadata']['name']}")
        return self.put(
            kind, body["metadata"]["name"], **{key: body[key] for key in ("metadata", "spec")} | {"metadata": {}}
        )

    replace = update

    async def delete(self, kind: Kind, name: str, *about: Any, **more: Any) -> Object:
        self.writes.append(f"delete {name}")
        gone = self.caches[kind].objects[name]
        self._version += 1
        self.caches[kind].forget({**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}})
        return gone


class Silent(EventRecorder):
    def __init__(self) -> None:
        pass

    def tell(self, *about: Any) -> None:
        pass


def played(
    scene: Callable[[Api], None], *more: Callable[[Api], None], before: Callable[[Api], None] = lambda api: None
) -> Api:
    """Return the API server after these scenes; after each of them the controller comes to rest."""

    async def run() -> Api:
        api = Api()
        connection: Any = api
        before(api)
        calls = Calls(connection, lambda kind: api.caches[kind])
        controller = ProfileController(
            ControllerContext(calls=calls, recorder=Silent(), retry=Retry(first_s=60.0)), Translation()
        )
        controller.start()
        for cache in api.caches.values():
            cache.synced.set()
        working = asyncio.ensure_future(controller.run())
        for each in (scene, *more):
            each(api)
            for _ in range(40):
                await asyncio.sleep(0)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return api

    return asyncio.run(run())


def profile(api: Api, name: str = "a", *, of: str = "high", enabled: bool = True) -> None:
    api.put(PROFILES, name, spec={"class": of, "enabled": enabled})


def test_a_profile_becomes_objects_that_it_owns() -> None:
    api = played(profile)
    assert api.writes == ["create p-a", "create b-a"]
    [owner] = api.caches[POLICIES].objects["p-a"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Profile", "a", "uid-a"), "the garbage collector deletes it"


def test_nothing_is_written_if_nothing_has_changed() -> None:
    api = played(profile, profile)
    assert api.writes == ["create p-a", "create b-a"]


def test_a_changed_priority_class_changes_the_policies_of_all_profiles() -> None:
    def two(api: Api) -> None:
        profile(api)
        profile(api, "b", of="other")

    api = played(two, lambda api: api.put(PRIORITY_CLASSES, "high", value=7) and None)
    assert api.writes[4:] == ["replace p-a"], "the policy of the other profile stays the same"
    assert api.caches[POLICIES].objects["p-a"]["spec"] == {"priority": 7}


def test_an_object_that_a_user_has_changed_is_set_right() -> None:
    def changed(api: Api) -> None:
        found = api.caches[POLICIES].objects["p-a"]
        api.put(
            POLICIES, "p-a", metadata={"ownerReferences": found["metadata"]["ownerReferences"]}, spec={"priority": 9}
        )

    api = played(profile, changed)
    assert api.writes[2:] == ["replace p-a"]


def test_objects_that_are_no_longer_wanted_are_deleted() -> None:
    api = played(profile, lambda api: profile(api, enabled=False))
    assert api.writes[2:] == ["delete b-a"]
    assert list(api.caches[POLICIES].objects) == ["p-a"]


def test_objects_of_other_owners_are_left_alone() -> None:
    def others(api: Api) -> None:
        api.put(BINDINGS, "of-a-user", spec={})
        api.put(BINDINGS, "of-another", spec={}, metadata={"ownerReferences": [{"uid": "uid-x", "kind": "Profile"}]})

    api = played(lambda api: profile(api, enabled=False), before=others)
    assert api.writes == ["create p-a"]
    assert sorted(api.caches[BINDINGS].objects) == ["of-a-user", "of-another"]


@pytest.mark.parametrize(("reason", "tried"), [("AlreadyExists", 2), ("Forbidden", 1)])
def test_an_object_that_exists_although_the_cache_does_not_have_it_is_no_error(reason: str, tried: int) -> None:
    def refusing(api: Api) -> None:
        api.refusal = ApiRefusal(409, reason, "no")

    api = played(profile, before=refusing)
    assert len(api.writes) == tried, "after another refusal the rest waits for the next try"
