"""Derive a pod's node constraints from its volume claims, so that no pod is bound to a node where its volumes cannot be
used.

The module implements the rules of kube-scheduler's plug-ins VolumeBinding, VolumeZone, VolumeRestrictions and
NodeVolumeLimits. It translates the rules into fields that every shape has, so that the core needs no rules for volumes:

- if a claim is bound, the node affinity and the zone labels of its volume are added to the pod's required node
  affinity;
- a volume of a CSI driver uses one of the attachments that the driver has on each node (CSINode). Attachments are
  counted like any other resource. A volume that several pods may share is not counted, because it needs only one
  attachment for all of its pods on a node;
- if a claim is bound only when its first pod has a node (WaitForFirstConsumer), the allowed topologies of its class are
  added to the pod's node affinity. Before such a pod is bound, its node is written on the claim, and the claim must
  become Bound (`unplaced`);
- the pod waits if a claim does not exist, if another controller must bind the claim, or if the claim is
  ReadWriteOncePod and in use.

If a class has no provisioner (local volumes), the scheduler must choose a volume for each claim. Phalanx does not
choose volumes. So a claim of such a class must be bound beforehand, or another scheduler must bind the pod (`binding`)
and its claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from phalanx.client.connection import Object
from phalanx.kube.read.template.affinity import node_term
from phalanx.kube.read.template.pod_shape import PodRequirements
from phalanx.model.node import Node
from phalanx.model.pod import Amounts, NodeTerm, Operator, Requirement, amounts
from phalanx.model.reason import Reason, ReasonCode

Spec = Mapping[str, Any]

_PLACES = "attachable-volumes-csi-"  # prefix of the resource by which a CSI driver's attachments on a node are counted
_UNLIMITED = 1 << 40
_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_ONE_POD, _SHARED = "ReadWriteOncePod", {"ReadWriteMany", "ReadOnlyMany"}
_BLIND = Reason(
    code=ReasonCode.UNSUPPORTED,
    text="it has volume claims, but Phalanx may not list claims, volumes and storage classes "
    "(VolumeBindingUnsupported): allow the scheduler's account to list persistentvolumeclaims, persistentvolumes, "
    "storageclasses and csinodes, or use other volumes",
)
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass(slots=True)
class ClaimConstraints:
    """The constraints that a pod's claims put on the pod. `rules`: requirements on the node; each rule is a list of
    terms, and the node must satisfy one term of each rule. `places`: the number of attachments that the claims use, by
    resource name; each CSI driver has one resource. `waits`: why the pod must wait. `wrong`: why the pod cannot be
    placed. `unplaced`: the claims that must get an annotation with the pod's node before the pod is bound."""

    rules: list[tuple[NodeTerm, ...]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    waits: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)


class VolumeClaims:
    """The constraints of all volume claims. Each parameter is a cache of objects by `namespace/name`, which the caller
    keeps up to date. `claims`: PersistentVolumeClaims. `volumes`: PersistentVolumes. `classes`: StorageClasses.
    `nodes`: CSINodes."""

    def __init__(
        self,
        *,
        claims: Mapping[str, Object],
        volumes: Mapping[str, Object],
        classes: Mapping[str, Object],
        nodes: Mapping[str, Object],
    ) -> None:
        self._claims, self._volumes, self._classes, self._nodes = claims, volumes, classes, nodes
        self._users: dict[str, set[str]] = {}  # claim -> the pods that use it, even if they still wait
        self._askers: dict[str, set[str]] = {}  # claim -> the Jobs whose templates name it
        self._drivers: frozenset[str] | None = None  # drivers with a limit on at least one node; None: not computed yet

    # --- users of claims ------------------------------------------------------------------------------------------

    def uses(self, namespace: str, pod: str, claims: Iterable[str]) -> None:
        for claim in claims:
            self._users.setdefault(_key(namespace, claim), set()).add(f"{namespace}/{pod}")

    def leaves(self, namespace: str, pod: str, claims: Iterable[str]) -> None:
        for claim in claims:
            self._users.get(_key(namespace, claim), set()).discard(f"{namespace}/{pod}")

    def known(self, namespace: str, pod: str, claim: str) -> bool:
        return f"{namespace}/{pod}" in self._users.get(_key(namespace, claim), ())

    def exclusive(self, namespace: str, claim: str) -> bool:
        """Return whether only one pod at a time may use the claim."""
        found = self._claims.get(_key(namespace, claim)) or {}
        return _ONE_POD in ((found.get("spec") or {}).get("accessModes") or ())

    def asks(self, namespace: str, job: str, claims: Iterable[str]) -> None:
        for claim in claims:
            self._askers.setdefault(_key(namespace, claim), set()).add(f"{namespace}/{job}")

    def claim_of(self, volume: Object) -> str:
        """Return the claim that a PersistentVolume is bound to; "" if there is none."""
        said = (volume.get("spec") or {}).get("claimRef") or {}
        return f"{said.get('namespace')}/{said.get('name')}" if said else ""

    def users(self, claim: str = "") -> set[str]:
        """Return the pods that use the claim. If `claim` is empty, return all pods that use any claim."""
        return self._users.get(claim, set()) if claim else set().union(*self._users.values())

    def askers(self, claim: str = "") -> set[str]:
        """Return the Jobs whose pod templates use the claim. If `claim` is empty, return all Jobs whose pod templates
        name any claim."""
        return self._askers.get(claim, set()) if claim else set().union(*self._askers.values())

    # --- nodes ----------------------------------------------------------------------------------------------------

    def with_places(self, node: Node) -> Node:
        """Return the node with one further resource for each CSI driver: the number of volumes that the driver can
        attach to the node. A driver that reports no number has no limit."""
        drivers = self.limited()
        if not drivers:
            return node
        own = dict(_limits(self._nodes.get(node.name, {})))
        places = {f"{_PLACES}{driver}": own.get(driver, _UNLIMITED) for driver in drivers}
        return replace(node, allocatable=amounts({**dict(node.allocatable), **places}))

    def limited(self) -> frozenset[str]:
        """Return the drivers whose attachments are limited on at least one node."""
        if self._drivers is None:
            self._drivers = frozenset(driver for one in self._nodes.values() for driver, _ in _limits(one))
        return self._drivers

    def recount(self) -> bool:
        """Update the limited drivers after a change of a CSINode. Return whether the set of limited drivers has
        changed."""
        before, self._drivers = self._drivers, None
        return before != self.limited()

    # --- pods -----------------------------------------------------------------------------------------------------

    def look(self, namespace: str, claims: Iterable[str], pod: str = "", node: str = "") -> ClaimConstraints:
        """Return the constraints that these claims put on the pod. `pod`: the pod that has the claims; empty for a
        template. `node`: the node of the pod, if it is already bound."""
        found = ClaimConstraints()
        for said in claims:
            name, ephemeral, class_name = said.partition("~")
            claim = self._claims.get(f"{namespace}/{name}")
            if claim is None and name:
                found.waits.append(f"the claim {name} does not exist")
            if claim is None and ephemeral:
                self._by_class(found, "", class_name or self._default_class())
            elif claim is not None:
                self._claimed(found, name, claim, f"{namespace}/{pod}" if pod else "", node)
        return found

    def _claimed(self, found: ClaimConstraints, name: str, claim: Object, pod: str, node: str) -> None:
        spec, phase = claim.get("spec") or {}, (claim.get("status") or {}).get("phase")
        if "deletionTimestamp" in claim["metadata"]:
            found.waits.append(f"the claim {name} is being deleted")
        others = {user for user in self._users.get(f"{claim['metadata']['namespace']}/{name}", ()) if user != pod}
        if _ONE_POD in (spec.get("accessModes") or ()) and others and not node:
            found.waits.append(f"the claim {name} is {_ONE_POD}, and the pod {min(others)} already uses it")
        if phase == "Lost":
            found.wrong.append(f"the volume of the claim {name} is lost")
        elif phase == "Bound" and (volume := self._volumes.get(spec.get("volumeName") or "")) is not None:
            self._bound(found, volume)
        elif phase == "Bound" or spec.get("volumeName"):
            found.waits.append(
                f"the volume {spec.get('volumeName')} of the claim {name} does not exist, or may not be read"
            )
        else:
            self._by_class(found, name, spec.get("storageClassName") or self._default_class())

    def _bound(self, found: ClaimConstraints, volume: Object) -> None:
        spec = volume["spec"]
        required = (spec.get("nodeAffinity") or {}).get("required") or {}
        if terms := tuple(node_term(one) for one in required.get("nodeSelectorTerms") or ()):
            found.rules.append(terms)
        said = volume["metadata"].get("labels") or {}
        for key in _ZONES:
            if key in said:
                found.rules.append(((Requirement(key, Operator.IN, tuple(sorted(said[key].split("__")))),),))
        driver = (spec.get("csi") or {}).get("driver")
        if driver in self.limited() and not _SHARED & set(spec.get("accessModes") or ()):
            found.places[f"{_PLACES}{driver}"] = found.places.get(f"{_PLACES}{driver}", 0) + 1

    def _by_class(self, found: ClaimConstraints, name: str, class_name: str) -> None:
        """Add the constraints of an unbound claim to `found`. These constraints depend on the binding mode and the
        allowed topologies of the claim's StorageClass."""
        what = f"the claim {name}" if name else "the claim of an ephemeral volume"
        known = self._classes.get(class_name)
        if known is None:
            found.waits.append(f"{what} is not bound, and its StorageClass {class_name!r} does not exist")
            return
        if known.get("volumeBindingMode") != "WaitForFirstConsumer":
            if name:
                found.waits.append(f"{what} is not bound yet")
            return
        provisioner = str(known.get("provisioner"))
        if provisioner == "kubernetes.io/no-provisioner":
            found.wrong.append(
                f"{what} is not bound, and Phalanx does not choose among the volumes of {class_name} "
                "(VolumeBindingUnsupported): bind it beforehand (spec.volumeName), or let another scheduler bind"
            )
            return
        if topologies := known.get("allowedTopologies"):
            found.rules.append(tuple(_topology(one) for one in topologies))
        if provisioner in self.limited():
            found.places[f"{_PLACES}{provisioner}"] = found.places.get(f"{_PLACES}{provisioner}", 0) + 1
        if name:
            found.unplaced.append(name)

    def _default_class(self) -> str:
        """Return the newest StorageClass that is marked as the default (pkg/volume/util/storageclass)."""
        said = [
            one
            for one in self._classes.values()
            if (one["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
        ]
        said.sort(key=lambda one: (one["metadata"].get("creationTimestamp") or "", one["metadata"]["name"]))
        return str(said[-1]["metadata"]["name"]) if said else ""


def with_claims(ask: PodRequirements, found: ClaimConstraints | None, *, ours: bool) -> PodRequirements:
    """Return the requirements of a pod with the constraints of its claims. `found`: None if claims cannot be listed.
    `ours`: True if Phalanx binds the pod; other schedulers handle the claims of their pods themselves."""
    if found is None:
        return ask if not ours or ask.obstacle is not None else PodRequirements(ask.shape, _BLIND, ask.claims)
    shape = replace(
        ask.shape,
        affinity=_all_of(ask.shape.affinity, found.rules),
        requests=_with(ask.shape.requests, found.places),
    )
    obstacle = ask.obstacle
    if not ours:
        return PodRequirements(shape, obstacle, ask.claims)
    if obstacle is None and found.wrong:
        obstacle = Reason(code=ReasonCode.UNSUPPORTED, text="; ".join(found.wrong), numbers={"count": len(found.wrong)})
    elif obstacle is None and found.waits:
        obstacle = Reason(code=ReasonCode.VOLUMES, text="; ".join(found.waits), numbers={"count": len(found.waits)})
    return PodRequirements(shape, obstacle, ask.claims)


def _all_of(own: tuple[NodeTerm, ...], rules: Iterable[tuple[NodeTerm, ...]]) -> tuple[NodeTerm, ...]:
    """Combine `own` with the rules. The result has one term for each combination of a term of `own` and a term of each
    rule."""
    choices = [each for each in (own, *dict.fromkeys(rules)) if each]
    if len(choices) < 2:
        return choices[0] if choices else ()
    return tuple(dict.fromkeys(tuple(dict.fromkeys(sum(picked, ()))) for picked in product(*choices) if all(picked)))


def _with(requests: Amounts, places: Mapping[str, int]) -> Amounts:
    return amounts({**dict(requests), **places}) if places else requests


def _key(namespace: str, claim: str) -> str:
    return f"{namespace}/{claim.partition('~')[0]}"


def _limits(node: Object) -> Iterator[tuple[str, int]]:
    for driver in (node.get("spec") or {}).get("drivers") or ():
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None:
            yield str(driver["name"]), int(count)


def _topology(said: Spec) -> NodeTerm:
    rules = said.get("matchLabelExpressions") or ()
    return tuple(Requirement(rule["key"], Operator.IN, tuple(rule.get("values") or ())) for rule in rules)
