"""Limit ranges and resource quotas, which limit the resources of a namespace.

Source: SetDefaults_LimitRangeItem, ValidateLimitRange, ValidateResourceQuota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from phalanx.embedded.apimachinery.schema import formats, quantity
from phalanx.embedded.apiserver.registry.kinds import checks
from phalanx.embedded.apiserver.registry.kinds.checks import Found, complain
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

Item = Mapping[str, Any]

_SCOPES = ("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating")
_OF_PODS = {"pods", "cpu", "memory"} | {
    f"{which}.{name}" for which in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")
}

# Each row describes a check that compares two amounts: the field that the error names, the field whose amount it shows,
# the field of the lower amount, the field of the higher amount, and the message.
_ORDERS = (
    ("min", "min", "min", "max", "min value {} is greater than max value {}"),
    (
        "defaultRequest",
        "defaultRequest",
        "min",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "max",
        "default request value {} is greater than max value {}",
    ),
    (
        *("defaultRequest", "defaultRequest", "defaultRequest", "default"),
        "default request value {} is greater than default limit value {}",
    ),
    ("default", "min", "min", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
AT_MOST_DEFAULT = "default request value {} is greater than default limit value {}"
QUOTA_NAMES = checks.STANDARD_RESOURCES - {"storage"}


class LimitRangeStrategy(ResourceStrategy):
    """The strategy of `limitranges`."""

    def default(self, obj: Object) -> None:
        for item in obj["spec"].get("limits") or ():
            if item.get("type") == "Container":
                _container_defaults(item)

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        seen: set[str] = set()
        for index, item in enumerate(obj["spec"].get("limits") or ()):
            path, sort = f"spec.limits[{index}]", item.get("type", "")
            if problems := formats.qualified_name(sort):
                complain(found, f"{path}.type", sort, problems)
            elif "/" not in sort and sort not in ("Container", "Pod", "PersistentVolumeClaim"):
                found.append(invalid_value(f"{path}.type", sort, "must be a standard limit type or fully qualified"))
            if sort in seen:
                found.append(duplicate(f"{path}.type", sort))
            seen.add(sort)
            _item(found, item, sort, path)
        return found


def _container_defaults(item: Object) -> None:
    """Set the default limits and requests of an item. The default limit is the maximum. The default request is the
    limit, or, without a limit, the minimum."""
    limits = item.get("default") or {}
    for name, amount in (item.get("max") or {}).items():
        limits.setdefault(name, amount)
    requests = item.get("defaultRequest") or {}
    for name, amount in (*limits.items(), *(item.get("min") or {}).items()):
        requests.setdefault(name, amount)
    if limits:
        item["default"] = limits
    if requests:
        item["defaultRequest"] = requests


def _item(found: Found, item: Item, sort: str, path: str) -> None:
    if sort == "Pod":
        for key in ("default", "defaultRequest"):
            if item.get(key):
                found.append(forbidden_field(f"{path}.{key}", "may not be specified when `type` is 'Pod'"))
    check_name = checks.container_resource_name if sort in ("Pod", "Container") else checks.resource_name
    for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        for name in item.get(key) or () if sort != "Pod" or not key.startswith("default") else ():
            check_name(found, name, f"{path}.{key}[{name}]")
    names = {name for key in ("min", "max", "default", "defaultRequest") for name in item.get(key) or {}}
    for name in sorted(names):
        for key, of, low, high, text in _ORDERS:
            lower, upper = (item.get(low) or {}).get(name), (item.get(high) or {}).get(name)
            if lower and upper and quantity.of(lower) > quantity.of(upper):
                shown = (item.get(of) or {}).get(name)
                found.append(invalid_value(f"{path}.{key}[{name}]", shown, text.format(lower, upper)))
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        _ratio(found, item, name, ratio, f"{path}.maxLimitRequestRatio[{name}]")
    if sort == "PersistentVolumeClaim" and not any("storage" in (item.get(key) or {}) for key in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        found.append(required(f"{path}.limits", text))


def _ratio(found: Found, item: Item, name: str, ratio: str, path: str) -> None:
    """Check a maxLimitRequestRatio: it must be at least 1, and at most the maximum divided by the minimum."""
    wanted = quantity.of(ratio)
    if wanted < quantity.NANO:
        found.append(invalid_value(path, ratio, f"ratio {ratio} is less than 1"))
    low, high = (item.get("min") or {}).get(name), (item.get("max") or {}).get(name)
    if low is None or high is None or not quantity.of(low):
        return
    most = quantity.of(high) / quantity.of(low)
    if wanted / quantity.NANO > most:
        found.append(invalid_value(path, ratio, f"ratio {ratio} is greater than max/min = {most:.6f}"))


class QuotaStrategy(SpecAndStatus):
    """The strategy of `resourcequotas`."""

    delete_returns_object = True

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        for name, amount in (obj["spec"].get("hard") or {}).items():
            path = f"spec.hard[{name}]"
            checks.resource_name(found, name, path)
            if "/" not in name and name not in QUOTA_NAMES and not name.startswith(checks.QUOTA_HUGE_PAGES):
                found.append(invalid_value(path, name, "must be a standard resource for quota"))
            checks.resource_amount(found, name, amount, path)
        _scopes(found, obj["spec"])
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        now, before = sorted(obj["spec"].get("scopes") or ()), sorted(old["spec"].get("scopes") or ())
        return [] if now == before else [invalid_value("spec.scopes", now, "field is immutable")]


def _scope_requirement(found: Found, one: Item, path: str) -> None:
    scope, operator, values = one.get("scopeName", ""), one.get("operator", ""), one.get("values") or ()
    if scope not in _SCOPES:
        found.append(invalid_value(f"{path}.scopeName", scope, "unsupported scope"))
    elif scope != "PriorityClass" and operator != "Exists":
        text = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        found.append(invalid_value(f"{path}.operator", operator, text))
    match operator:
        case "In" | "NotIn":
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                found.append(required(f"{path}.values", text))
        case "Exists" | "DoesNotExist":
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                found.append(invalid_value(f"{path}.values", list(values), text))
        case _:
            found.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))


def _scopes(found: Found, spec: Mapping[str, Any]) -> None:
    """Check the scopes of a quota. A quota with scopes counts only pods, so it may limit only resources of pods."""
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            found.append(invalid_value("spec.scopes", scopes, "unsupported scope"))
            continue
        allowed = {"pods"} if scope == "BestEffort" else _OF_PODS
        if any(name in QUOTA_NAMES and name not in allowed for name in spec.get("hard") or {}):
            found.append(invalid_value("spec.scopes", scopes, "unsupported scope applied to resource"))
    for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        _scope_requirement(found, one, "spec.scopeSelector.matchExpressions")
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if set(pair) <= set(scopes):
            found.append(invalid_value("spec.scopes", scopes, "conflicting scopes"))
