"""Validate how the pods of a workload are created and replaced: the strategies of Deployments, StatefulSets and
DaemonSets.

Source: ValidateDeploymentStrategy, ValidateStatefulSetSpec and ValidateDaemonSetUpdateStrategy of
pkg/apis/apps/validation.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import (
    Found,
    at_most_all,
    count_or_percent,
    formatted,
    not_negative,
)
from phalanx.embedded.apiserver.registry.kinds.workloads import storage

_ON_DELETE, _ROLLING = "OnDelete", "RollingUpdate"
_KEPT = ("Retain", "Delete")
_REPLACED: Mapping[str, object] = {"maxUnavailable": 0, "maxSurge": 0}
_PARTITIONED: Mapping[str, object] = {"partition": 0, "maxUnavailable": None}


def deployment(found: Found, spec: Object) -> None:
    """Check `strategy` and `progressDeadlineSeconds` of a Deployment."""
    strategy, path = spec.get("strategy") or {}, "spec.strategy"
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type", ""):
        case "Recreate":
            if rolling is not None:
                text = "may not be specified when strategy `type` is 'Recreate'"
                found.append(forbidden_field(f"{path}.rollingUpdate", text))
        case "RollingUpdate":
            _counts(found, rolling or {}, f"{path}.rollingUpdate")
            if rolling and not _amount(rolling, "maxUnavailable") and not _amount(rolling, "maxSurge"):
                text = "may not be 0 when `maxSurge` is 0"
                found.append(invalid_value(f"{path}.rollingUpdate.maxUnavailable", rolling.get("maxUnavailable"), text))
            at_most_all(found, (rolling or {}).get("maxUnavailable"), f"{path}.rollingUpdate.maxUnavailable")
        case other:
            found.append(not_supported(path, _shown(other, rolling, _REPLACED), ("Recreate", _ROLLING)))
    progress_s, ready_s = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    not_negative(found, spec, ("progressDeadlineSeconds",), "spec")
    if progress_s is not None and progress_s <= ready_s:
        text = "must be greater than minReadySeconds"
        found.append(invalid_value("spec.progressDeadlineSeconds", progress_s, text))


def stateful_set(found: Found, spec: Object) -> None:
    """Check the order and the update strategy of a StatefulSet, and the retention policy of its volume claims."""
    if (order := spec.get("podManagementPolicy", "")) not in ("OrderedReady", "Parallel"):
        found.append(invalid_value("spec.podManagementPolicy", order, "must be 'OrderedReady' or 'Parallel'"))
    strategy, path = spec.get("updateStrategy") or {}, "spec.updateStrategy"
    sort, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if sort == _ROLLING:
        not_negative(found, rolling or {}, ("partition",), f"{path}.rollingUpdate")
    elif sort != _ON_DELETE:
        shown = _shown(sort, rolling, _PARTITIONED)
        found.append(invalid_value(path, shown, f"must be '{_ROLLING}' or '{_ON_DELETE}'"))
    elif rolling is not None:
        shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
        found.append(invalid_value(f"{path}.rollingUpdate", shown, f"only allowed for updateStrategy '{_ROLLING}'"))
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        if (policy := kept.get(key, "")) not in _KEPT:
            found.append(not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{key}", policy, _KEPT))
    not_negative(found, spec.get("ordinals") or {}, ("start",), "spec.ordinals")


def with_claims(found: Found, spec: Object, template: Object) -> Object:
    """Check the volume claims of a StatefulSet. Return its pod template with a volume for each claim, because the pods
    of the set have these volumes."""
    if name := spec.get("serviceName"):
        formatted(found, "spec.serviceName", name, formats.dns_label)
    claims = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(claims):
        storage.claim_spec(found, claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    if not claims:
        return template
    names = [(claim.get("metadata") or {}).get("name", "") for claim in claims]
    own = [one for one in (template.get("spec") or {}).get("volumes") or () if one.get("name") not in names]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return {**template, "spec": {**(template.get("spec") or {}), "volumes": [*volumes, *own]}}


def _shown(sort: str, rolling: Object | None, fields: Mapping[str, object]) -> Object:
    """Return an update strategy as messages show it, with the names of the fields in Go."""
    parts = {key[0].upper() + key[1:]: rolling.get(key, zero) for key, zero in fields.items()} if rolling else rolling
    return {"Type": sort, "RollingUpdate": parts}


def daemon_set(found: Found, spec: Object) -> None:
    """Check the `updateStrategy` of a DaemonSet: the new pod on a node starts either after the old pod has ended
    (maxUnavailable) or before (maxSurge)."""
    strategy, path = spec.get("updateStrategy") or {}, "spec.updateStrategy"
    sort, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if sort == _ON_DELETE:
        return
    if sort != _ROLLING:
        found.append(not_supported(path, _shown(sort, rolling, _REPLACED), (_ROLLING, _ON_DELETE)))
        return
    path, rolling = f"{path}.rollingUpdate", rolling or {}
    _counts(found, rolling, path)
    for key in ("maxUnavailable", "maxSurge"):
        at_most_all(found, rolling.get(key), f"{path}.{key}")
    unavailable, surge = (_amount(rolling, key) for key in ("maxUnavailable", "maxSurge"))
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        found.append(invalid_value(f"{path}.maxSurge", rolling.get("maxSurge"), text))
    elif not unavailable and not surge:
        found.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def _counts(found: Found, rolling: Object, path: str) -> None:
    for key in ("maxUnavailable", "maxSurge"):
        if (value := rolling.get(key)) is not None:
            count_or_percent(found, value, f"{path}.{key}")


def _amount(rolling: Object, key: str) -> int:
    """Return a count or a percentage as a number (`25%` as 25); 0 if the value is neither."""
    text = str(rolling.get(key, 0)).removesuffix("%")
    return int(text) if text.lstrip("-").isdigit() and len(text) <= 10 else 0
