"""Compute the headroom of ResourceQuotas, so that a gang is not resumed if its namespace's quotas would refuse some of
its pods.

The API server checks the quotas only when each single pod is created. Without a check before the resume, a gang could
get only some of its pods, and would occupy nodes without doing any work until the start times out. So the requests of
all pods that must start together are compared with the *headroom* of each quota: its hard limit, less its usage, less
the amounts that are reserved for starting gangs whose pods do not exist yet. The usage is the larger of two amounts:
the usage in the quota's status, which the API server checks, and the usage of the pods in the cache. The second amount
is needed because the status may be missing or may be updated late.

The resource names that a quota can limit (such as `requests.cpu`), and the scopes by which it selects pods, are the
same as in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go. Namespaces without a quota cause no work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from phalanx.client.connection import Object
from phalanx.client.quantity import amount
from phalanx.kube.read.template.pod_shape import pod_requests
from phalanx.model.pod import PODS, Amounts, amounts, format_amount
from phalanx.model.reason import Reason, ReasonCode

_PLAIN = ("cpu", "memory", "ephemeral-storage")
_TO_BE_SAID = ("cpu", "memory")  # if a quota limits one of these, every container must set a request
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodQuotaUsage:
    """The amounts of one pod that count against ResourceQuotas, and the properties by which scopes select pods.
    `takes`: the pod's amount for each resource name that a quota can limit. `unsaid`: the requests and limits of cpu
    and memory that at least one container does not set, by their resource names in quotas (such as `limits.cpu`)."""

    takes: Amounts
    unsaid: frozenset[str] = frozenset()
    terminating: bool = False
    best_effort: bool = False
    priority_class: str = ""


QuotaDemand: TypeAlias = tuple[tuple[PodQuotaUsage, int], ...]  # pairs of a pod's usage and the number of such pods


def pod_quota_usage(spec: Mapping[str, Any]) -> PodQuotaUsage:
    """Return the usage of a pod with this spec. For the pod spec of a template, this is the usage of each pod that is
    created from the template. Raises QuantityError."""
    takes = {PODS: 1, "count/pods": 1}
    for name, value in pod_requests(spec):
        if name != PODS:
            takes[f"requests.{name}"] = value
            if name in _PLAIN or name.startswith("hugepages-"):
                takes[name] = value
    takes |= {f"limits.{name}": value for name, value in _limits(spec) if name != PODS}
    return PodQuotaUsage(
        takes=amounts(takes),
        unsaid=_unsaid(spec),
        terminating=spec.get("activeDeadlineSeconds") is not None,
        best_effort=not any(name in takes for name in ("cpu", "memory", "limits.cpu", "limits.memory")),
        priority_class=spec.get("priorityClassName") or "",
    )


def _limits(spec: Mapping[str, Any]) -> Amounts:
    """Return the sum of the limits of the pod's containers, computed as `pod_requests` computes the sum of the
    requests. The overhead is added only for resources with a limit."""
    mirrored = dict(spec)
    for part in ("containers", "initContainers"):
        mirrored[part] = [{**one, "resources": _asking_limits(one)} for one in spec.get(part) or ()]
    if spec.get("resources"):
        mirrored["resources"] = _asking_limits(spec)
    without = dict(pod_requests({**mirrored, "overhead": None}))
    return amounts({name: value for name, value in pod_requests(mirrored) if name in without})


def _asking_limits(one: Mapping[str, Any]) -> Object:
    return {"requests": (one.get("resources") or _NONE).get("limits") or {}}


def _unsaid(spec: Mapping[str, Any]) -> frozenset[str]:
    if spec.get("resources"):
        return frozenset()  # the pod sets resources for all of its containers together
    found = set()
    for one in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        said = one.get("resources") or _NONE
        limits = said.get("limits") or _NONE
        requests = {**limits, **(said.get("requests") or _NONE)}
        for name in _TO_BE_SAID:
            found |= {name, f"requests.{name}"} if name not in requests else set()
            found |= {f"limits.{name}"} if name not in limits else set()
    return frozenset(found)


class ResourceQuotaUsage:
    """A ResourceQuota, and the usage that counts against it."""

    def __init__(self, obj: Object) -> None:
        spec, status = obj.get("spec") or _NONE, obj.get("status") or _NONE
        self.name = obj["metadata"]["name"]
        self.hard = _read(status.get("hard") or spec.get("hard") or _NONE)
        self.options = _read(status.get("used") or _NONE)
        self.pods: dict[str, int] = {}
        self.promised: dict[str, int] = {}
        self._scopes = [(scope, "Exists", ()) for scope in spec.get("scopes") or ()]
        for one in (spec.get("scopeSelector") or _NONE).get("matchExpressions") or ():
            self._scopes.append((one["scopeName"], one["operator"], tuple(one.get("values") or ())))

    def counts(self, pod: PodQuotaUsage) -> bool:
        return all(_in_scope(pod, *scope) for scope in self._scopes)

    def add(self, total: dict[str, int], demand: QuotaDemand, sign: int = 1) -> None:
        for pod, count in demand:
            if self.counts(pod):
                for name, value in pod.takes:
                    if name in self.hard:
                        total[name] = total.get(name, 0) + sign * count * value

    def used(self, name: str) -> int:
        return max(self.options.get(name, 0), self.pods.get(name, 0)) + self.promised.get(name, 0)

    def obstacle(self, namespace: str, demand: QuotaDemand) -> Reason | None:
        """Return why the quota does not admit all pods of this demand; None if it admits them."""
        asked: dict[str, int] = {}
        self.add(asked, demand)
        where = f"the quota {self.name} of namespace {namespace}"
        for pod, _ in demand:
            if self.counts(pod) and (open_ := sorted(pod.unsaid & self.hard.keys())):
                text = f"{where} admits no pod whose containers do not set {', '.join(open_)}: add it to the template"
                return Reason(code=ReasonCode.QUOTA, text=text, numbers={"quota": self.name, "unsaid": open_})
        over = sorted(name for name, value in asked.items() if value + self.used(name) > self.hard[name])
        if not over:
            return None
        never = any(asked[name] > self.hard[name] for name in over)
        tail = "; its hard limit is lower than this: request less, or have the quota raised" if never else ""
        text = f"{where} leaves too little: {', '.join(self._line(name, asked[name]) for name in over)}{tail}"
        lacks = {name: {"asked": asked[name], "used": self.used(name), "hard": self.hard[name]} for name in over}
        return Reason(code=ReasonCode.QUOTA, text=text, numbers={"quota": self.name, "lacks": lacks})

    def _line(self, name: str, asked: int) -> str:
        unit = _unit(name)
        used, hard = format_amount(unit, self.used(name)), format_amount(unit, self.hard[name])
        return f"{name} asked {format_amount(unit, asked)}, used {used} of {hard}"


def _read(values: Mapping[str, str]) -> dict[str, int]:
    return {name: amount(_unit(name), text) for name, text in values.items()}


def _unit(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")


def _in_scope(pod: PodQuotaUsage, scope: str, operator: str, values: tuple[str, ...]) -> bool:
    """Return whether the scope selects the pod. An unknown scope selects no pod."""
    match scope, operator:
        case "PriorityClass", "In":
            return pod.priority_class in values
        case "PriorityClass", "NotIn":
            return pod.priority_class not in values
        case "PriorityClass", "DoesNotExist":
            return not pod.priority_class
        case "PriorityClass", _:
            return bool(pod.priority_class)
    truths = {
        "Terminating": pod.terminating,
        "NotTerminating": not pod.terminating,
        "BestEffort": pod.best_effort,
        "NotBestEffort": not pod.best_effort,
    }
    return truths.get(scope, False)


@dataclass(slots=True)
class _Space:
    """The state of a namespace with at least one quota."""

    ledgers: dict[str, ResourceQuotaUsage] = field(default_factory=dict)
    pods: dict[str, tuple[int | None, QuotaDemand]] = field(default_factory=dict)  # pod uid -> (generation, usage)
    promises: dict[str, QuotaDemand] = field(default_factory=dict)  # gang -> its pods that do not exist yet
    waiting: dict[str, QuotaDemand] = field(default_factory=dict)  # gang -> the demand that was refused
    grown: bool = False  # True if the headroom may have grown since the last check


class ResourceQuotas:
    """The ResourceQuotas of all namespaces, and the gangs that need quota: each gang's *demand* is the usage of the
    pods that it must create. `limited`: the namespaces that have a quota."""

    def __init__(self) -> None:
        self.limited: dict[str, _Space] = {}

    @property
    def has_changes(self) -> bool:
        return any(space.grown and space.waiting for space in self.limited.values())

    # --- quotas and pods --------------------------------------------------------------------------------------------

    def see_quota(self, obj: Object, pods: Callable[[], Iterable[Object]]) -> None:
        """Add or replace a quota. `pods`: a function that returns the cached pods of the quota's namespace. The
        function is called only for the first quota of a namespace."""
        namespace = obj["metadata"]["namespace"]
        space = self.limited.get(namespace)
        if space is None:
            space = self.limited[namespace] = _Space()
            for pod in pods():
                self.see_pod(pod)
        ledger = space.ledgers[obj["metadata"]["name"]] = ResourceQuotaUsage(obj)
        for _, demand in space.pods.values():
            ledger.add(ledger.pods, demand)
        for demand in space.promises.values():
            ledger.add(ledger.promised, demand)
        space.grown = True

    def lose_quota(self, obj: Object) -> None:
        space = self.limited.get(obj["metadata"]["namespace"])
        if space is not None:
            space.ledgers.pop(obj["metadata"]["name"], None)
            space.grown = True

    def see_pod(self, obj: Object) -> None:
        meta = obj["metadata"]
        space = self.limited.get(meta["namespace"])
        if space is None:
            return
        if (obj.get("status") or _NONE).get("phase") in ("Succeeded", "Failed"):
            self.lose_pod(meta["namespace"], meta["uid"])
            return
        known, generation = space.pods.get(meta["uid"]), meta.get("generation")
        if known is None or known[0] != generation:
            self.lose_pod(meta["namespace"], meta["uid"])
            demand: QuotaDemand = ((pod_quota_usage(obj["spec"]), 1),)
            space.pods[meta["uid"]] = (generation, demand)
            for ledger in space.ledgers.values():
                ledger.add(ledger.pods, demand)

    def lose_pod(self, namespace: str, uid: str) -> None:
        space = self.limited.get(namespace)
        if space is None or uid not in space.pods:
            return
        _, demand = space.pods.pop(uid)
        for ledger in space.ledgers.values():
            ledger.add(ledger.pods, demand, -1)
        space.grown = True

    def reserve(self, namespace: str, gang: str, demand: QuotaDemand) -> None:
        """Reserve quota for those pods of a starting gang that do not exist yet. An empty `demand` ends the
        reservation."""
        space = self.limited.get(namespace)
        if space is None or (old := space.promises.get(gang, ())) == demand:
            return
        space.promises[gang] = demand
        if not demand:
            del space.promises[gang]
        for ledger in space.ledgers.values():
            ledger.add(ledger.promised, old, -1)
            ledger.add(ledger.promised, demand)
        space.grown = True

    # --- questions ------------------------------------------------------------------------------------------------

    def obstacle(self, namespace: str, demand: QuotaDemand) -> Reason | None:
        """Return why the quotas do not admit all pods of this demand now; None if they admit them."""
        space = self.limited.get(namespace)
        return _first(space, namespace, demand) if space is not None else None

    def wait(self, namespace: str, gang: str, demand: QuotaDemand) -> None:
        """Record that the gang waits until the quotas have headroom for this demand. An empty `demand` ends the
        wait."""
        if (space := self.limited.get(namespace)) is None:
            return
        if demand:
            space.waiting[gang] = demand
        else:
            space.waiting.pop(gang, None)

    def unblocked_gangs(self) -> list[str]:
        """Return the waiting gangs whose demand the quotas would admit now. Only namespaces whose headroom may have
        grown are checked."""
        found = []
        for namespace, space in self.limited.items():
            if space.grown and space.waiting:
                found += [gang for gang, demand in space.waiting.items() if _first(space, namespace, demand) is None]
            space.grown = False
        return found


def _first(space: _Space, namespace: str, demand: QuotaDemand) -> Reason | None:
    found = (ledger.obstacle(namespace, demand) for ledger in space.ledgers.values())
    return next((reason for reason in found if reason is not None), None)
