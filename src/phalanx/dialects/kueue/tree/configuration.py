"""Read Kueue's `Configuration` from the ConfigMap `kueue-manager-config` of `kueue-system`, as Kueue's controller does.

Settings about jobs have an effect in Phalanx; settings about the process of Kueue's controller have none. If the
ConfigMap is missing or cannot be read, Kueue's defaults apply.


Sources: apis/config/v1beta2/{configuration_types,defaults}.go of v0.19.2.

Kueue's Configuration may transform the requests of pods. Then a pod's *charge*, which is the amount that counts against
the quota, differs from its requests.

A transformation applies to one resource, its *input*. If a pod requests the input, the following amount is added to the
pod's own request of the output resource:


    output = sum over the transformations of input * multiplier * units of the output in one of the input


The input itself is charged too, unless the transformation replaces it. Outputs may be negative, which reduces the
charge of a resource, but never below 0. Excluded resources are not charged, but the outputs of their transformations
are. The computation is exact. For each pod, the result is rounded up to whole units. The charge is used for quota only;
for placement, the scheduler uses the pods' requests.


Sources: apis/config/v1beta2/configuration_types.go and pkg/workload/workload.go of v0.20.0-devel; for excluded inputs
and multipliers: the changelog of 0.20.0 (#15954, #16041)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml

from phalanx.client.kind import Kind
from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.schema.depth import require_shallow
from phalanx.dialects.schema.fields import Misread, Path, duration_s
from phalanx.model.pod import CPU, PODS, Amounts, amounts

_MILLI = 1000  # Phalanx's units of cpu per core


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """A transformation of one resource. `replaces`: True if the input itself is not charged. `multiplier`: a resource
    whose requested amount multiplies the outputs; empty if there is none. `outputs`: the number of units of each output
    resource per unit of the input (for cpu, per core)."""

    input: str
    replaces: bool = False
    multiplier: str = ""
    outputs: Mapping[str, Fraction] = field(default_factory=dict)


def transformed(
    requests: Amounts, transformations: Iterable[Transformation], excluded: tuple[str, ...] = ()
) -> Amounts:
    """Return the charge of a pod with these requests. `excluded`: resources whose names begin with one of these
    prefixes are not charged. The resource `pods` is always charged."""
    asked = {name: Fraction(value, _MILLI) if name == CPU else Fraction(value) for name, value in requests}
    counted = {name: each for name, each in asked.items() if name == PODS or not name.startswith(excluded)}
    made: dict[str, Fraction] = {}
    for one in transformations:
        if one.input not in asked:
            continue
        base = asked[one.input] * asked.get(one.multiplier, 1)
        for name, units in one.outputs.items():
            made[name] = made.get(name, Fraction()) + base * units
        if one.replaces:
            counted.pop(one.input, None)
    for name, each in made.items():
        counted[name] = counted.get(name, Fraction()) + max(Fraction(), each)
    return amounts({name: ceil(each * _MILLI) if name == CPU else ceil(each) for name, each in counted.items()})


# Phalanx reads only ConfigMaps in Kueue's namespace.
CONFIGURATIONS = Kind(plural="namespaces/kueue-system/configmaps", name="ConfigMap", namespaced=False)
_KEY = "kueue-system/kueue-manager-config"
_FILE = "controller_manager_config.yaml"
SAMPLING_S = 300.0  # admissionFairSharing.usageSamplingInterval
START_TIMEOUT_S = 1800.0  # waitForPodsReady.timeout; on by default since 0.19
_INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
_OWN_DISPATCHERS = ("", "kueue.x-k8s.io/multikueue-dispatcher-all-at-once", _INCREMENTAL)
_SPACE = "kubernetes.io/metadata.name"
_MANAGED: Final = {
    "matchExpressions": [{"key": _SPACE, "operator": "NotIn", "values": ["kube-system", "kueue-system"]}]
}


class KueueConfigurationError(ValueError):
    """The Configuration is invalid. The exception's text has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """The settings of admission fair sharing, which orders jobs by the past usage of their LocalQueues. `half_life_s`:
    the time after which past usage counts only half. `sampling_s`: the interval at which usage is sampled. `weights`:
    the weight of one unit of each resource (of cpu, one core). A resource that is not named has the weight 1."""

    half_life_s: float
    sampling_s: float = SAMPLING_S
    weights: Mapping[str, float] = field(default_factory=dict)

    def weight(self, resource: str) -> float:
        """Return the weight of one unit of the resource."""
        return self.weights.get(resource, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKueue:
    """The settings of MultiKueue, which sends copies of jobs to other clusters. `origin`: the value of a label on these
    copies. `gc_s`: the interval at which Phalanx searches other clusters for copies whose job no longer exists.
    `lost_s`: if a cluster does not respond for this time, its jobs are sent to another cluster. `dispatcher`: the name
    of the external dispatcher that nominates clusters for a job; empty if the scheduler itself chooses among all
    clusters. The scheduler does so in place of Kueue's own dispatchers."""

    dispatcher: str = ""
    origin: str = "multikueue"
    gc_s: float = 60.0
    lost_s: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueConfiguration:
    """The settings of Kueue's Configuration that have an effect in Phalanx.

    `fair`: True if fair sharing is on. `strategies`: its preemption strategies, in order.
    `start_timeout_s`: the time within which the pods of an admitted job must become ready.
    `excluded`: prefixes of resource names; a resource whose name has such a prefix is not charged to quotas.
    `transformations`: resources that are charged as other resources, either instead of or in addition to themselves.
    `undeclared`: True if a resource for which the ClusterQueue has no quota is not charged.
    `managed`: the selector of the namespaces whose jobs are queued.
    `by_usage`: the settings for ClusterQueues that order jobs by the past usage of their LocalQueues; None if no
    ClusterQueue may do so.
    `finished_s`: the time for which finished Workloads are kept. `deactivated_s`: the time for which jobs are kept
    whose Workloads were deactivated by Kueue's rules. None: these objects are not deleted.
    `multi`: the settings of MultiKueue.
    `fault`: why the Configuration cannot be read. In this case all other fields have Kueue's defaults."""

    fair: bool = False
    strategies: tuple[str, ...] = ()
    start_timeout_s: float = START_TIMEOUT_S
    excluded: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    undeclared: bool = False
    managed: Mapping[str, object] = field(default_factory=lambda: _MANAGED)
    by_usage: AdmissionFairSharing | None = None
    finished_s: float | None = None
    deactivated_s: float | None = None
    multi: MultiKueue = MultiKueue()
    fault: str = ""

    def manages(self, labels: Mapping[str, str]) -> bool:
        """Return whether Kueue's rules queue the jobs of a namespace with these labels."""
        return selects(self.managed, labels)

    @property
    def counts_all(self) -> bool:
        """Return True if the charge of every pod equals the pod's requests, so that it need not be computed."""
        return not (self.excluded or self.transformations or self.undeclared)

    def counted(self, requests: Amounts, declared: frozenset[str]) -> Amounts:
        """Return the charge of a pod with these requests. `declared`: the resources for which its ClusterQueue has a
        quota."""
        if self.counts_all:
            return requests
        found = transformed(requests, self.transformations, self.excluded)
        return tuple(each for each in found if each[0] in declared) if self.undeclared else found


DEFAULTS = KueueConfiguration()


def configuration(objects: Mapping[str, Object]) -> KueueConfiguration:
    """Return the configuration in Kueue's ConfigMap, or the defaults if there is no such ConfigMap. `objects`: the
    ConfigMaps by `namespace/name`."""
    text = text_of(objects.get(_KEY) or {})
    if text is None:
        return DEFAULTS
    try:
        return read_configuration(decoded(text))
    except KueueConfigurationError as error:
        return KueueConfiguration(fault=str(error))


def text_of(config_map: Object) -> str | None:
    """Return the text of the Configuration; None if the ConfigMap is not Kueue's or does not contain a
    Configuration."""
    meta = config_map.get("metadata") or {}
    if f"{meta.get('namespace')}/{meta.get('name')}" != _KEY:
        return None
    found = (config_map.get("data") or {}).get(_FILE)
    return None if found is None else str(found)


def decoded(text: str) -> Any:
    """Return the content of the Configuration as plain values. Raise KueueConfigurationError if the text is not
    YAML."""
    try:
        require_shallow(text)
        return msgspec.yaml.decode(text)
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError) as error:
        raise KueueConfigurationError(f"{_KEY} is not YAML: {error}") from error


class _Expression(msgspec.Struct):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Expression] = []


class _FairSharing(msgspec.Struct, rename="camel"):
    enable: bool = True  # a field that only v1beta1 has
    preemption_strategies: list[str] = []


class _Wait(msgspec.Struct):
    timeout: Any = None


class _Transformation(msgspec.Struct, rename="camel"):
    input: str
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: dict[str, str | int | float] = {}


class _Resources(msgspec.Struct, rename="camel"):
    exclude_resource_prefixes: list[str] = []
    transformations: list[_Transformation] = []
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"


class _Admission(msgspec.Struct, rename="camel"):
    usage_half_life_time: Any = 0
    usage_sampling_interval: Any = SAMPLING_S
    resource_weights: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}


class _Retention(msgspec.Struct, rename="camel"):
    after_finished: Any = None
    after_deactivated_by_kueue: Any = None

    def seconds(self) -> tuple[float | None, float | None]:
        """Return both retention times in seconds. Raise Misread if one is invalid."""
        path = ("objectRetentionPolicies", "workloads")
        said = {"afterFinished": self.after_finished, "afterDeactivatedByKueue": self.after_deactivated_by_kueue}
        found = [None if value is None else duration_s(value, (*path, name)) for name, value in said.items()]
        return found[0], found[1]


class _Retained(msgspec.Struct):
    workloads: _Retention | None = None


class _Incremental(msgspec.Struct, frozen=True, rename="camel"):
    step_size: Annotated[int, msgspec.Meta(ge=1)] = 3


class _Multi(msgspec.Struct, frozen=True, rename="camel"):
    gc_interval: Any = 60
    origin: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")] = "multikueue"
    worker_lost_timeout: Any = 900
    dispatcher_name: str = ""
    incremental_dispatcher_config: _Incremental | None = None


class _Said(msgspec.Struct, rename="camel"):
    """The fields of the Configuration that have an effect in Phalanx."""

    fair_sharing: _FairSharing | None = None
    wait_for_pods_ready: _Wait | None = None
    resources: _Resources | None = None
    managed_jobs_namespace_selector: _Selector | None = None
    admission_fair_sharing: _Admission | None = None
    multi_kueue: _Multi = _Multi()
    object_retention_policies: _Retained | None = None


def read_configuration(document: object) -> KueueConfiguration:
    """Return the settings of a Configuration. Raise KueueConfigurationError if a field has the wrong type."""
    try:
        said = msgspec.convert(document, _Said)
        timeout = (said.wait_for_pods_ready or _Wait()).timeout
        timeout_s = START_TIMEOUT_S if timeout is None else duration_s(timeout, ("waitForPodsReady", "timeout"))
        resources = said.resources or _Resources()
        transformations = _transformations(resources.transformations)
        by_usage = _by_usage(said.admission_fair_sharing)
        multi = _multi(said.multi_kueue)
        retained = (said.object_retention_policies or _Retained()).workloads or _Retention()
        finished_s, deactivated_s = retained.seconds()
    except (msgspec.ValidationError, Misread) as error:
        raise KueueConfigurationError(f"{_KEY} cannot be read: {error}") from error
    fair = said.fair_sharing
    managed = said.managed_jobs_namespace_selector
    return KueueConfiguration(
        fair=fair is not None and fair.enable,
        strategies=tuple(fair.preemption_strategies) if fair is not None else (),
        start_timeout_s=timeout_s,
        excluded=tuple(resources.exclude_resource_prefixes),
        transformations=transformations,
        undeclared=resources.quota_check_strategy == "IgnoreUndeclared",
        managed=_MANAGED if managed is None else msgspec.to_builtins(managed),
        by_usage=by_usage,
        multi=multi,
        finished_s=finished_s,
        deactivated_s=deactivated_s,
    )


def _multi(said: _Multi) -> MultiKueue:
    """Return the settings of MultiKueue. If `gcInterval` is 0, Phalanx never searches for copies whose job no longer
    exists. Raise Misread if a setting is invalid. As in Kueue, settings of the incremental dispatcher are an error if
    another dispatcher is chosen."""
    if said.incremental_dispatcher_config is not None and said.dispatcher_name != _INCREMENTAL:
        path = ("multiKueue", "incrementalDispatcherConfig")
        raise Misread(path, f"it is only valid if dispatcherName is {_INCREMENTAL}")
    return MultiKueue(
        dispatcher="" if said.dispatcher_name in _OWN_DISPATCHERS else said.dispatcher_name,
        origin=said.origin,
        gc_s=duration_s(said.gc_interval, ("multiKueue", "gcInterval")),
        lost_s=duration_s(said.worker_lost_timeout, ("multiKueue", "workerLostTimeout")),
    )


def _by_usage(said: _Admission | None) -> AdmissionFairSharing | None:
    """Return the settings of admission fair sharing. If the half-life is 0, past usage is forgotten at once, so that
    all LocalQueues are equal. Raise Misread if a setting is invalid."""
    if said is None:
        return None
    path = ("admissionFairSharing", "usageSamplingInterval")
    sampling_s = duration_s(said.usage_sampling_interval, path)
    if not sampling_s:
        raise Misread(path, "it must be longer than 0; write for instance 5m")
    half_life_s = duration_s(said.usage_half_life_time, ("admissionFairSharing", "usageHalfLifeTime"))
    if not half_life_s:
        return None
    return AdmissionFairSharing(half_life_s=half_life_s, sampling_s=sampling_s, weights=said.resource_weights)


def _transformations(said: Sequence[_Transformation]) -> tuple[Transformation, ...]:
    """Return the transformations. Raise Misread for settings with which Kueue would not start either."""
    path = ("resources", "transformations")
    for name, times in Counter(each.input for each in said).items():
        if times > 1:
            raise Misread(path, f"there are {times} transformations of the input {name}; combine them into one")
    if any(PODS in each.outputs for each in said):
        raise Misread(path, "the output must not be `pods`, which is always counted; use another name")
    return tuple(
        Transformation(
            input=each.input,
            replaces=each.strategy == "Replace",
            multiplier=each.multiply_by,
            outputs=_outputs(each.outputs, (*path, at, "outputs")),
        )
        for at, each in enumerate(said)
    )


def _outputs(said: Mapping[str, str | int | float], path: Path) -> dict[str, Fraction]:
    found = dict[str, Fraction]()
    for name, units in said.items():
        try:
            found[name] = parse(units)
        except QuantityError as error:
            raise Misread((*path, name), str(error)) from None
    return found
