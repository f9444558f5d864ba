"""Kueue's `Configuration`, as its controller reads it from the ConfigMap `kueue-manager-config` of `kueue-system`.

What decides about jobs is carried out; what configures Kueue's own process has no effect. Where there is no such
ConfigMap, or it cannot be read, Kueue's defaults hold.

Sources: apis/config/v1beta2/{configuration_types,defaults}.go of v0.19.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml

from phalanx.client.kind import Kind
from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.kueue.tree.transformations import Transformation, transformed
from phalanx.dialects.schema.depth import require_shallow
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.model.pod import PODS, Amounts

# The ConfigMaps of Kueue's namespace alone: nobody else's are read.
CONFIGURATIONS = Kind(plural="namespaces/kueue-system/configmaps", name="ConfigMap", namespaced=False)
_KEY = "kueue-system/kueue-manager-config"
_FILE = "controller_manager_config.yaml"
SAMPLING_S = 300.0  # admissionFairSharing.usageSamplingInterval
START_TIMEOUT_S = 1800.0  # waitForPodsReady.timeout; it is on since 0.19 unless switched off
_SPACE = "kubernetes.io/metadata.name"
_MANAGED: Final = {
    "matchExpressions": [{"key": _SPACE, "operator": "NotIn", "values": ["kube-system", "kueue-system"]}]
}


class ConfigurationError(ValueError):
    """A fault of the file, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """`half_life_s`: what was used counts half after that long. `sampling_s`: so often that is looked at. `weights`:
    what a unit of each resource counts, of cpu a core; of a resource that is not named one."""

    half_life_s: float
    sampling_s: float = SAMPLING_S
    weights: Mapping[str, float] = field(default_factory=dict)

    def weight(self, resource: str) -> float:
        """Return what a unit of the resource counts."""
        return self.weights.get(resource, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """`fair`: fair sharing is on. `strategies`: its preemption strategies, in order. `start_timeout_s`: how long the
    pods of an admitted job may take to become ready. `excluded`: prefixes of resources that no quota counts.
    `transformations`: what resources count as instead, or besides. `undeclared`: those are not counted that a
    ClusterQueue has no quota of. `managed`: selects the namespaces whose jobs are queued. `by_usage`: how ClusterQueues
    that ask for it order their jobs by the past usage of their LocalQueues; None: they do not. `fault`: why it cannot
    be read; Kueue's defaults hold then."""

    fair: bool = False
    strategies: tuple[str, ...] = ()
    start_timeout_s: float = START_TIMEOUT_S
    excluded: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    undeclared: bool = False
    managed: Mapping[str, Any] = field(default_factory=lambda: _MANAGED)
    by_usage: AdmissionFairSharing | None = None
    fault: str = ""

    def manages(self, labels: Mapping[str, str]) -> bool:
        """Return whether the jobs of a namespace with these labels are queued."""
        return selects(self.managed, labels)

    @property
    def counts_all(self) -> bool:
        """Return whether what pods ask for counts as it is."""
        return not (self.excluded or self.transformations or self.undeclared)

    def counted(self, requests: Amounts, declared: frozenset[str]) -> Amounts:
        """Return what counts against quota of a pod with these requests. `declared`: the resources that its
        ClusterQueue has a quota of."""
        if self.counts_all:
            return requests
        found = transformed(requests, self.transformations, self.excluded)
        return tuple(each for each in found if each[0] in declared) if self.undeclared else found


DEFAULTS = Configuration()


def configuration(objects: Mapping[str, Object]) -> Configuration:
    """Return the configuration that stands in one of these ConfigMaps (by `namespace/name`)."""
    text = text_of(objects.get(_KEY) or {})
    if text is None:
        return DEFAULTS
    try:
        return read_configuration(decoded(text))
    except ConfigurationError as error:
        return Configuration(fault=str(error))


def text_of(config_map: Object) -> str | None:
    """Return the file; None: this ConfigMap is another, or has none."""
    meta = config_map.get("metadata") or {}
    if f"{meta.get('namespace')}/{meta.get('name')}" != _KEY:
        return None
    found = (config_map.get("data") or {}).get(_FILE)
    return None if found is None else str(found)


def decoded(text: str) -> Any:
    """Return what stands in the file. Raises ConfigurationError: it is no YAML."""
    try:
        require_shallow(text)
        return msgspec.yaml.decode(text)
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError) as error:
        raise ConfigurationError(f"{_KEY} is no YAML: {error}") from error


class _Expression(msgspec.Struct):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Expression] = []


class _FairSharing(msgspec.Struct, rename="camel"):
    enable: bool = True  # of v1beta1
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


class _Said(msgspec.Struct, rename="camel"):
    """The fields that are carried out."""

    fair_sharing: _FairSharing | None = None
    wait_for_pods_ready: _Wait | None = None
    resources: _Resources | None = None
    managed_jobs_namespace_selector: _Selector | None = None
    admission_fair_sharing: _Admission | None = None


def read_configuration(document: Any) -> Configuration:
    """Return what the fields of a Configuration say. Raises ConfigurationError: they are of other types."""
    try:
        said = msgspec.convert(document, _Said)
        timeout = (said.wait_for_pods_ready or _Wait()).timeout
        timeout_s = START_TIMEOUT_S if timeout is None else duration_s(timeout, ("waitForPodsReady", "timeout"))
        resources = said.resources or _Resources()
        transformations = _transformations(resources.transformations)
        by_usage = _by_usage(said.admission_fair_sharing)
    except (msgspec.ValidationError, Misread, QuantityError) as error:
        raise ConfigurationError(f"{_KEY} cannot be read: {error}") from error
    fair = said.fair_sharing
    managed = said.managed_jobs_namespace_selector
    return Configuration(
        fair=fair is not None and fair.enable,
        strategies=tuple(fair.preemption_strategies) if fair is not None else (),
        start_timeout_s=timeout_s,
        excluded=tuple(resources.exclude_resource_prefixes),
        transformations=transformations,
        undeclared=resources.quota_check_strategy == "IgnoreUndeclared",
        managed=_MANAGED if managed is None else msgspec.to_builtins(managed),
        by_usage=by_usage,
    )


def _by_usage(said: _Admission | None) -> AdmissionFairSharing | None:
    """Raises Misread. With a half-life of 0 nothing of what was used is left, so all have used as much."""
    if said is None:
        return None
    path = ("admissionFairSharing", "usageSamplingInterval")
    sampling_s = duration_s(said.usage_sampling_interval, path)
    if not sampling_s:
        raise Misread(path, "it is 0; write for instance 5m")
    half_life_s = duration_s(said.usage_half_life_time, ("admissionFairSharing", "usageHalfLifeTime"))
    if not half_life_s:
        return None
    return AdmissionFairSharing(half_life_s=half_life_s, sampling_s=sampling_s, weights=said.resource_weights)


def _transformations(said: Sequence[_Transformation]) -> tuple[Transformation, ...]:
    """Raises Misread and QuantityError: Kueue does not start with what is refused here."""
    path = ("resources", "transformations")
    for name, times in Counter(each.input for each in said).items():
        if times > 1:
            raise Misread(path, f"there are {times} of the input {name}; make one of them")
    if any(PODS in each.outputs for each in said):
        raise Misread(path, "`pods` is counted by itself; name the output otherwise")
    return tuple(
        Transformation(
            input=each.input,
            replaces=each.strategy == "Replace",
            multiplier=each.multiply_by,
            outputs={name: parse(units) for name, units in each.outputs.items()},
        )
        for each in said
    )
