"""Run AppWrappers like CodeFlare's controller, and AppWrappers of the first generation (v1beta1) like MCAD's
controller.

A suspended AppWrapper has no components; the scheduler resumes it when all its pods have a node. The controller then
creates each component (a wrapped object) with the identity of the user who created the AppWrapper. An admission policy
records this user in annotations of the AppWrapper (`dialects.job_kinds.appwrapper`). So an AppWrapper contains only
objects that its user may create, and the API server applies all checks for this user.

The caller supplies the data and functions that depend on the kind AppWrapper, as an object of the class `Wrapping`
(`phalanx.dialects.job_kinds.appwrapper.wrapping`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.informer import Change
from phalanx.client.kind import DEPLOYMENTS, JOBS, NODES, PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.operators.appwrapper import first_generation
from phalanx.embedded.controllers.operators.appwrapper.phases import (
    Do,
    ObservedComponents,
    PhaseStep,
    settings_of,
    step,
)
from phalanx.embedded.controllers.runtime.calls import gone
from phalanx.embedded.controllers.runtime.discovery import Catalog, discover
from phalanx.embedded.controllers.runtime.pod_state import condition, controller_of, owner_reference
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler
from phalanx.errors import PhalanxError


class Wrapping(Protocol):
    """The data and functions that depend on the kind AppWrapper. `label`: the label of components and pods with the
    AppWrapper's name. `uid`: the annotation of pods with the AppWrapper's uid. `manager`: the value of `managedBy` that
    selects this controller. `creator`, `groups`: the annotations with the name and the groups of the creator."""

    @property
    def kind(self) -> Kind: ...
    @property
    def label(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def manager(self) -> str: ...
    @property
    def creator(self) -> str: ...
    @property
    def groups(self) -> str: ...

    def read(self, obj: Object) -> Object:
        """Return the AppWrapper, converted to v1beta2 if it has another version."""

    def demand(self, spec: Mapping[str, object]) -> Object | None:
        """Return the resource demand for the status of an AppWrapper of the first generation (MCAD); None for an
        AppWrapper of the second generation."""

    def expected(self, app_wrapper: Object) -> int:
        """Return the expected number of pods. Raises PhalanxError if the components can never be created."""

    def pod_sets(self, at: int, component: Mapping[str, object]) -> Sequence[Object]:
        """Return the `podSets` of a component for the status."""

    def component_name(self, app_wrapper: Object, at: int) -> str:
        """Return the name of a component; "" if it has no name."""

    def component(self, app_wrapper: Object, at: int) -> Object:
        """Return the object to create for a component. Raises PhalanxError if the object can never be created."""

    def must_leave(self, pod: Mapping[str, object], node_labels: Mapping[str, str]) -> bool:
        """Return True if a pod with this spec must leave a node with these labels."""


COMPONENT: Final = "appwrapper"
# the time between two checks of objects that are being removed, or whose kinds are not watched
_POLL_S: Final = 2.0
_ASK_S: Final = 2.0  # the pause before a kind that is not served is looked up again
_FATAL: Final = frozenset({400, 403, 404, 405, 409, 422})


class AppWrapperController(Reconciler):
    """The controller of AppWrappers of one kind. `wrapping`: the data and functions for the kind."""

    component, owns = COMPONENT, (PODS, JOBS, DEPLOYMENTS)

    def __init__(self, context: ControllerContext, wrapping: Wrapping) -> None:
        self._wrapping, self.kind = wrapping, wrapping.kind
        super().__init__(context)
        self._catalog: Catalog | None = None
        self._asked_s = 0.0  # the time of the last discovery
        self._pods: dict[str, dict[str, Object]] = {}  # AppWrapper (namespace/name) -> uid -> pod
        # Uid -> (the error of creating a component, True if the error is permanent).
        self._faults: dict[str, tuple[str, bool]] = {}
        self._calls.cache(PODS).subscribe(self._on_pod)

    def _on_pod(self, change: Change) -> None:
        """Store the pod with its AppWrapper, and reconcile the AppWrapper. A pod belongs to the AppWrapper that its
        label names; the creator of the pod is not checked."""
        obj = change.new or change.old
        name = (obj["metadata"].get("labels") or {}).get(self._wrapping.label) if obj is not None else None
        if obj is None or not name:
            return
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{name}"
        if change.new is not None:
            self._pods.setdefault(key, {})[meta["uid"]] = change.new
        elif key in self._pods:
            self._pods[key].pop(meta["uid"], None)
            if not self._pods[key]:
                del self._pods[key]
        self.queue.add(key)

    async def reconcile(self, own: Object) -> None:
        if not has_components(own):
            text = "spec.components is missing, or one of them has no template: nothing can be created"
            self.tell(own, "Warning", "Invalid", text)
            return
        if (own["spec"].get("managedBy") or self._wrapping.manager) != self._wrapping.manager:
            return
        obj = self._wrapping.read(own)
        uid, now_s = obj["metadata"]["uid"], self._clock()
        seen = await self._see(obj, own)
        suspended = bool(obj["spec"].get("suspend"))
        status, demand = obj.get("status") or {}, self._wrapping.demand(own["spec"])
        if demand is None:
            found = step(status, suspended, seen, settings_of(obj["metadata"]), now_s)
        else:
            found = first_generation.step(status, own["spec"], demand, suspended, seen, now_s)
        if found.do is Do.CREATE:
            await self._create(obj)
            found.look_s = now_s + (_POLL_S if uid in self._faults and not self._faults[uid][1] else 0.0)
        elif found.do is not Do.NOTHING:
            await self._remove(obj, forced=found.do is Do.FORCE)
            found.look_s = min(found.look_s or now_s + _POLL_S, now_s + _POLL_S)
        if demand is None:
            found.status["componentStatus"] = await self._components(obj, found)
        if found.status.get("phase", found.status.get("state")) not in ("Resuming", "Running", "Failed"):
            self._faults.pop(uid, None)
        for reason, message in found.events:
            self.tell(obj, "Normal", reason, message)
        await self.write_status(obj, found.status)
        if found.look_s:
            self.look_after(obj, max(0.05, found.look_s - now_s))

    # --- the state of an AppWrapper -----------------------------------------------------------------------------------

    async def _see(self, obj: Object, own: Object) -> ObservedComponents:
        meta = obj["metadata"]
        pods = self._pods_of(meta)
        try:
            expected = self._wrapping.expected(own)
        except PhalanxError as error:
            return ObservedComponents(pods=pods, expected=0, missing=["a component"], fault=str(error), fatal=True)
        parts = [(self._name(obj, at), await self._find(obj, at)) for at in _each(obj)]
        failed = (f"{name}: {text}" for name, found in parts if found is not None and (text := _failure(found)))
        fault, fatal = self._faults.get(meta["uid"], ("", False))
        return ObservedComponents(
            pods=pods,
            expected=expected,
            missing=[name for name, found in parts if found is None],
            components=[found for _, found in parts],
            there=any(found is not None for _, found in parts),
            failed=next(failed, ""),
            fault=fault,
            fatal=fatal,
            evicted=any(self._leaves(pod) for pod in pods),
        )

    def _pods_of(self, meta: Object) -> list[Object]:
        """Return the pods of an AppWrapper, without pods of an earlier AppWrapper of the same name."""
        named = self._pods.get(f"{meta['namespace']}/{meta['name']}", {}).values()
        said = ((pod, pod["metadata"].get("annotations") or {}) for pod in named)
        return [pod for pod, notes in said if notes.get(self._wrapping.uid, meta["uid"]) == meta["uid"]]

    def _leaves(self, pod: Object) -> bool:
        """Return True if Autopilot has marked the pod's node for eviction because of devices that the pod uses."""
        node = self._calls.cache(NODES).objects.get((pod.get("spec") or {}).get("nodeName") or "")
        labels = (node or {}).get("metadata", {}).get("labels") or {}
        return bool(labels) and self._wrapping.must_leave(pod["spec"], labels)

    def _name(self, obj: Object, at: int) -> str:
        return f"{obj['spec']['components'][at]['template'].get('kind')} {self._wrapping.component_name(obj, at)}"

    async def _find(self, obj: Object, at: int) -> Object | None:
        """Return the component with the index `at` if it exists and belongs to this AppWrapper."""
        kind = await self._kind(obj["spec"]["components"][at]["template"])
        name = self._wrapping.component_name(obj, at)
        if kind is None or not name:
            return None
        space = obj["metadata"]["namespace"]
        if kind in self.owns:
            found = self._calls.cache(kind).objects.get(f"{space}/{name}")
        else:
            found = await self._get(kind, name, space)
        owner = controller_of(found) if found is not None else None
        if found is None or owner is None or owner["uid"] != obj["metadata"]["uid"]:
            return None
        return {**found, "kind": kind.name}

    async def _get(self, kind: Kind, name: str, space: str) -> Object | None:
        try:
            return await self._calls.get(kind, name, space)
        except ApiRefusal as refusal:
            if refusal.code != 404:
                raise
            return None

    async def _kind(self, template: Object) -> Kind | None:
        """Return the kind of the template; None if the server does not serve the kind now, or if the kind is
        cluster-scoped."""
        key = str(template.get("apiVersion")), str(template.get("kind"))
        if self._catalog is None or (key not in self._catalog.named and self._clock() >= self._asked_s + _ASK_S):
            self._asked_s = self._clock()
            self._catalog = await discover(self._calls)
        found = self._catalog.named.get(key)
        return found if found is not None and found.namespaced else None

    # --- writes -------------------------------------------------------------------------------------------------------

    async def _create(self, obj: Object) -> None:
        """Create the components in their order. A refusal is stored, and the next step reports it."""
        uid = obj["metadata"]["uid"]
        for at in _each(obj):
            if await self._find(obj, at) is not None:
                continue
            try:
                await self._create_one(obj, at)
            except PhalanxError as error:
                fatal = not isinstance(error, ApiError) or (isinstance(error, ApiRefusal) and error.code in _FATAL)
                self._faults[uid] = f"{self._name(obj, at)}: {error}", fatal
                return
        self._faults.pop(uid, None)

    async def _create_one(self, obj: Object, at: int) -> None:
        meta = obj["metadata"]
        body = self._wrapping.component(obj, at)
        kind = await self._kind(body)
        if kind is None:
            raise PhalanxError(f"no namespaced {body.get('kind')} of {body.get('apiVersion')} is served")
        notes = meta.get("annotations") or {}
        creator = str(notes.get(self._wrapping.creator) or "")
        if not creator:
            raise PhalanxError(f"its creator is unknown: it has no annotation {self._wrapping.creator}")
        body["metadata"]["ownerReferences"] = [owner_reference(self._wrapping.kind, obj)]
        groups = tuple(filter(None, str(notes.get(self._wrapping.groups, "")).split(",")))
        await self._calls.create_as(creator, groups, kind, body, meta["namespace"])

    async def _remove(self, obj: Object, *, forced: bool) -> None:
        meta = obj["metadata"]
        for at in _each(obj):
            found, kind = await self._find(obj, at), await self._kind(obj["spec"]["components"][at]["template"])
            if found is not None and kind is not None and "deletionTimestamp" not in found["metadata"]:
                await self._calls.remove(kind, found)
        for pod in self._pods_of(meta) if forced else ():
            try:
                await self._calls.delete(PODS, pod, grace_s=0)
            except ApiRefusal as refusal:
                if not gone(refusal):
                    raise

    async def _components(self, obj: Object, found: PhaseStep) -> list[Object]:
        """Return the status of each component."""
        old = (obj.get("status") or {}).get("componentStatus") or ()
        fault, _ = self._faults.get(obj["metadata"]["uid"], ("", False))
        said: list[Object] = []
        for at, component in enumerate(obj["spec"]["components"]):
            template = component["template"]
            there = await self._find(obj, at) is not None
            wrong = fault if fault.startswith(f"{self._name(obj, at)}: ") else ""
            known = next(iter((old[at].get("conditions") or ()) if at < len(old) else ()), None)
            one = {
                "name": self._wrapping.component_name(obj, at),
                "kind": str(template.get("kind")),
                "apiVersion": str(template.get("apiVersion")),
                "podSets": list(self._wrapping.pod_sets(at, component)),
            }
            if there or wrong or known is not None:
                one["conditions"] = [_deployed(known, there, wrong, found.now_s)]
            said.append(one)
        return said


def _each(obj: Object) -> range:
    return range(len(obj["spec"]["components"]))


def _failure(obj: Object) -> str:
    """Return the failure in the status of a Job or PyTorchJob; "" if there is none. As in the original controller, a
    component of another kind only counts as failed because of its pods."""
    said = condition(obj, "Failed") if obj["kind"] in ("Job", "PyTorchJob") else None
    return str(said.get("message") or "failed") if said is not None and said["status"] == "True" else ""


def _deployed(known: Object | None, there: bool, fault: str, now_s: float) -> Object:
    """Return the condition ResourcesDeployed of a component. The reason `CompononetDeleted` has the spelling of the
    original controller."""
    reason = "ComponentCreatedSuccessfully" if there else "ComponentCreationErrored" if fault else "CompononetDeleted"
    status = "True" if there else "False"
    since = known["lastTransitionTime"] if known is not None and known["status"] == status else write_moment(now_s)
    said = {"type": "ResourcesDeployed", "status": status, "reason": reason, "message": fault}
    return {**said, "lastTransitionTime": since}


def has_components(own: Object) -> bool:
    """Return True if the components have the fields that the controller reads. Not every installed definition of the
    kind requires these fields."""
    spec = own.get("spec")
    if not isinstance(spec, dict) or isinstance(spec.get("resources"), dict):
        return isinstance(spec, dict)
    components = spec.get("components")
    return isinstance(components, list) and all(
        isinstance(one, dict) and isinstance(one.get("template"), dict) for one in components
    )
