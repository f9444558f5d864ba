"""Names that a Node object may have in it: labels, taints, resources. A node of another kind would never arrive."""

from __future__ import annotations

import re

OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
_HINT = "at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit"


def wrong_key(key: str) -> str:
    """Return why the text is not a valid key of a label or taint, or name of a resource; "" if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name):
        return f"{key!r} is no key: a key has {_HINT}"
    return "" if not slash or OBJECT.fullmatch(prefix) else f"{key!r} is no key: {prefix!r} is no domain"


def wrong_value(value: str) -> str:
    """Return why the text is not a valid value of a label or taint; "" if it is valid."""
    return "" if not value or _NAME.fullmatch(value) else f"{value!r} is no value: a value has {_HINT}"


def wrong_resource(resource: str) -> str:
    """Return why no node can have a resource of this name; "" if a node can. Resources of vendors have a domain."""
    if "/" in resource or resource in _RESOURCES or resource.startswith("hugepages-"):
        return ""
    known = ", ".join(_RESOURCES)
    return f"no node has a resource {resource!r}: write {known}, hugepages-SIZE or a vendor's, as nvidia.com/gpu"
