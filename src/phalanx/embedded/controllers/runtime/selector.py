"""Label selectors of objects (metav1.LabelSelector): does it select these labels?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether the selector matches the labels. An empty selector selects everything; None selects nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(term, labels) for term in selector.get("matchExpressions") or ())


def _meets(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(term["key"]), term.get("values") or ()
    match term["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def as_query(selector: Mapping[str, Any]) -> str:
    """Return the selector in the form of the query parameter labelSelector."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        listed = ",".join(term.get("values") or ())
        match term["operator"]:
            case "In":
                terms.append(f"{term['key']} in ({listed})")
            case "NotIn":
                terms.append(f"{term['key']} notin ({listed})")
            case "Exists":
                terms.append(term["key"])
            case _:
                terms.append(f"!{term['key']}")
    return ",".join(terms)
