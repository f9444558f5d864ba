"""Translate the profiles of another project into admission policies. A profile describes changes to new pods. In the
other project, a webhook makes these changes. In Phalanx, each profile is translated to a mutating admission policy,
which the API server applies. The garbage collector deletes the policies of a deleted profile. The caller supplies the
translation (`Profiles`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.runtime.pod_state import owner_reference
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

COMPONENT: Final = "pod-profiles"


class Profiles(Protocol):
    """How profiles of one Kubernetes kind are translated into admission policies. `kind`: the kind of the profiles.
    `classes`: the kind of the PriorityClasses that profiles name. `made`: the kinds of the objects into which profiles
    are translated."""

    @property
    def kind(self) -> Kind: ...
    @property
    def classes(self) -> Kind: ...
    @property
    def made(self) -> tuple[Kind, ...]: ...

    def objects(self, profile: Object, classes: Mapping[str, Object]) -> Sequence[tuple[Kind, Object]]:
        """Return the objects into which a profile is translated, each with its kind. `classes`: name of a PriorityClass
        -> the PriorityClass."""


class ProfileController(Reconciler):
    """The controller for profiles of one Kubernetes kind. `profiles`: how these profiles are translated."""

    component = COMPONENT

    def __init__(self, context: ControllerContext, profiles: Profiles) -> None:
        self._profiles, self.kind, self.owns = profiles, profiles.kind, profiles.made
        super().__init__(context)
        self._calls.cache(profiles.classes).subscribe(self._class_changed)

    def _class_changed(self, change: Change) -> None:
        """Reconcile all profiles, because a profile that names the changed priority class must get the new priority."""
        for key in self.objects:
            self.queue.add(key)

    async def reconcile(self, profile: Object) -> None:
        wanted = self._profiles.objects(profile, self._calls.cache(self._profiles.classes).objects)
        for kind, body in wanted:
            await self._write(profile, kind, body)
        kept = {(kind, body["metadata"]["name"]) for kind, body in wanted}
        uid = profile["metadata"]["uid"]
        for kind in self._profiles.made:
            for found in [*self._calls.cache(kind).objects.values()]:
                owners = found["metadata"].get("ownerReferences") or ()
                if any(owner["uid"] == uid for owner in owners) and (kind, found["metadata"]["name"]) not in kept:
                    await self._calls.remove(kind, found)

    async def _write(self, profile: Object, kind: Kind, body: Object) -> None:
        meta = {**body["metadata"], "ownerReferences": [owner_reference(self._profiles.kind, profile)]}
        found = self._calls.cache(kind).objects.get(meta["name"])
        if found is None:
            try:
                await self._calls.create(kind, {**body, "metadata": meta})
            except ApiRefusal as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
        elif any(found["spec"].get(key) != value for key, value in body["spec"].items()):
            await self._calls.replace(kind, {**found, "spec": body["spec"]})
