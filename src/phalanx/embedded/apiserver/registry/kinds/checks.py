"""Checks that many kinds share: of numbers, choices, immutable fields, label selectors and resource lists.

Each check appends the errors that it finds to the list `found`, so that no list is created for a valid object. Source:
k8s.io/kubernetes/pkg/apis/core/validation and k8s.io/apimachinery/pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypedDict

from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats, quantity
from phalanx.embedded.apimachinery.schema.formats import Format, Problems

Found = list[Cause]

NEGATIVE = "must be greater than or equal to 0"
_PERCENT = re.compile("[0-9]+%")
_PERCENT_ERROR = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
IMMUTABLE = "field is immutable"
IN_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
EXISTS_HAS_NONE = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
INTEGER_RESOURCES = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"}
    | {"services.nodeports", "services.loadbalancers"}
)
COMPUTE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
STANDARD_RESOURCES = (
    COMPUTE_RESOURCES
    | {f"{which}.{name}" for which in ("requests", "limits") for name in COMPUTE_RESOURCES}
    | {"storage", "requests.storage"}
    | INTEGER_RESOURCES
)
QUOTA_HUGE_PAGES = ("hugepages-", "requests.hugepages-")


def complain(found: Found, field: str, value: object, problems: Problems) -> None:
    """Add an error `Invalid value` for each of the messages in `problems`, which a check of the value's format has
    returned."""
    for problem in problems:
        found.append(invalid_value(field, value, problem))


def formatted(found: Found, field: str, value: str, form: Format) -> None:
    if problems := form(value):
        complain(found, field, value, problems)


def not_negative(found: Found, holder: Mapping[str, Any], keys: Iterable[str], path: str) -> None:
    for key in keys:
        value = holder.get(key)
        if value is not None and value < 0:
            found.append(invalid_value(f"{path}.{key}", value, NEGATIVE))


def chosen(found: Found, field: str, value: str | None, choices: Collection[str]) -> None:
    """Check that a required value is set, and is one of `choices`."""
    if not value:
        found.append(required(field))
    elif value not in choices:
        found.append(not_supported(field, value, choices))


def unchanged(found: Found, field: str, now: object, before: object) -> None:
    if now != before:
        found.append(invalid_value(field, now, IMMUTABLE))


def labels(found: Found, given: Mapping[str, str] | None, path: str) -> None:
    """Check the keys and values of labels, of a node selector or of `matchLabels`."""
    for key, value in (given or {}).items():
        formatted(found, path, key, formats.qualified_name)
        formatted(found, path, value, formats.label_value)


class RequirementFields(TypedDict, total=False):
    """A requirement on a label, or on a field of a node."""

    key: str
    operator: str
    values: list[str]


class LabelSelectorFields(TypedDict, total=False):
    """A label selector (`metav1.LabelSelector`)."""

    matchExpressions: list[RequirementFields]
    matchLabels: dict[str, str]


def label_selector(found: Found, selector: LabelSelectorFields | None, path: str) -> None:
    """Check a label selector (`metav1.LabelSelector`)."""
    if not selector:
        return
    labels(found, selector.get("matchLabels"), f"{path}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        values = one.get("values") or ()
        match one.get("operator", ""):
            case "In" | "NotIn":
                if not values:
                    found.append(required(f"{here}.values", IN_NEEDS_VALUES))
            case "Exists" | "DoesNotExist":
                if values:
                    found.append(forbidden_field(f"{here}.values", EXISTS_HAS_NONE))
            case other:
                found.append(invalid_value(f"{here}.operator", other, "not a valid selector operator"))
        formatted(found, f"{here}.key", one.get("key", ""), formats.qualified_name)
        for number, value in enumerate(values):
            formatted(found, f"{here}.values[{number}]", value, formats.label_value)


def selects(selector: LabelSelectorFields | None, given: Mapping[str, str]) -> bool:
    """Return True if a label selector matches the labels. Without a selector nothing matches; an empty selector matches
    everything."""
    if selector is None:
        return False
    if any(given.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_holds(one, given) for one in selector.get("matchExpressions") or ())


def _expression_holds(one: RequirementFields, given: Mapping[str, str]) -> bool:
    value = given.get(one.get("key", ""))
    match one.get("operator"):
        case "In":
            return value is not None and value in (one.get("values") or ())
        case "NotIn":
            return value is None or value not in (one.get("values") or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


# --- resources -----------------------------------------------------------------------------------------------------


def is_native(name: str) -> bool:
    """Return True for the name of a resource without a vendor's domain: `cpu`, `kubernetes.io/batteries`."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return True for the name of a resource with a vendor's domain: `nvidia.com/gpu`."""
    return not is_native(name) and not name.startswith("requests.") and not formats.qualified_name(f"requests.{name}")


def is_overcommitable(name: str) -> bool:
    """Return True if the request for this resource may be lower than its limit."""
    return is_native(name) and not name.startswith("hugepages-")


def resource_name(found: Found, name: str, path: str) -> None:
    """Check the name of a resource, which must be a standard name or have a domain."""
    if problems := formats.qualified_name(name):
        complain(found, path, name, problems)
    elif "/" not in name and not (name in STANDARD_RESOURCES or name.startswith(QUOTA_HUGE_PAGES)):
        found.append(invalid_value(path, name, "must be a standard resource type or fully qualified"))


def container_resource_name(found: Found, name: str, path: str) -> None:
    """Check the name of a resource that a container requests or limits. If the name is wrong, all errors of the name
    are added, not only the first."""
    resource_name(found, name, path)
    if "/" not in name:
        if name not in ("cpu", "memory", "ephemeral-storage") and not name.startswith("hugepages-"):
            found.append(invalid_value(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        found.append(invalid_value(path, name, "doesn't follow extended resource name standard"))


def resource_amount(found: Found, name: str, amount: str, path: str) -> None:
    """Check that an amount is not negative, and that it is an integer if the resource cannot be divided."""
    nano = quantity.of(amount)
    if nano < 0:
        found.append(invalid_value(path, amount, NEGATIVE))
    if nano % quantity.NANO and (name in INTEGER_RESOURCES or is_extended(name)):
        found.append(invalid_value(path, amount, "must be an integer"))


def requirements(found: Found, given: Mapping[str, Any] | None, path: str) -> None:
    """Check `limits` and `requests` of a container."""
    if not given:
        return
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    for name, amount in limits.items():
        _named_amount(found, name, amount, path, "limits")
    for name, amount in requests.items():
        _named_amount(found, name, amount, path, "requests")
        _request_within_limit(found, name, amount, limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        found.append(forbidden_field(path, "HugePages require cpu or memory"))


def _named_amount(found: Found, name: str, amount: str, path: str, which: str) -> None:
    if name in ("cpu", "memory") and amount[0] != "-":
        return
    here = f"{path}.{which}[{name}]"
    container_resource_name(found, name, here)
    resource_amount(found, name, amount, here)


def _request_within_limit(found: Found, name: str, amount: str, limit: str | None, path: str) -> None:
    if limit is None:
        if not is_overcommitable(name):
            found.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    elif amount == limit:
        return
    elif not is_overcommitable(name):
        found.append(invalid_value(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}"))
    elif quantity.of(amount) > quantity.of(limit):
        text = f"must be less than or equal to {name} limit of {limit}"
        found.append(invalid_value(f"{path}.requests", amount, text))


def count_or_percent(found: Found, value: int | str, path: str) -> None:
    """Check that a value is a count that is not negative, or a percentage."""
    if isinstance(value, int):
        if value < 0:
            found.append(invalid_value(path, value, NEGATIVE))
    elif not _PERCENT.fullmatch(value):
        found.append(invalid_value(path, value, _PERCENT_ERROR))


def at_most_all(found: Found, value: int | str | None, path: str) -> None:
    """Check that a percentage is at most 100."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and (len(value.lstrip("0")) > 4 or int(value[:-1]) > 100):
        found.append(invalid_value(path, value, "must not be greater than 100%"))


def total(spec: Mapping[str, Any], which: str) -> dict[str, str]:
    """Return the amounts of a whole pod by resource. Each amount is the sum over the pod's containers, or the amount of
    the largest init container if that is more. `which`: `requests` or `limits`."""
    found: dict[str, str] = {}
    for one in spec.get("containers") or ():
        for name, amount in ((one.get("resources") or {}).get(which) or {}).items():
            found[name] = quantity.add(found[name], amount) if name in found else amount
    for one in spec.get("initContainers") or ():
        for name, amount in ((one.get("resources") or {}).get(which) or {}).items():
            if name not in found or quantity.of(amount) > quantity.of(found[name]):
                found[name] = amount
    return found
