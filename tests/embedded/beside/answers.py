"""The form in which two answers are compared: values that differ between right servers have names.

Six things are left out. They are written on docs/benchmarks/api-server.md:
- warnings and conditions by which this server says that no controller acts on a kind;
- the annotation that names who deleted an object;
- the state `Suspended` of a Job before the Job controller has written it;
- versions, times and addresses inside of messages;
- versions of definitions and validating policies, and the status of these policies: some servers write it late;
- the order of several errors in one message, and of the rules in a review: the real server walks maps in any order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from phalanx.embedded.apimachinery.meta.objectmeta import DELETED_BY
from tests.embedded.oracle.normalise import Names, normalise, without_managed_fields

_WITHIN = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?Z| ?[+-]\d\d:?\d\d)?( UTC)?( m=\S+)?"), "<time>"),
    (re.compile(r"\b10\.96\.\d{1,3}\.\d{1,3}\b"), "<ip>"),
    (re.compile(r":3\d{4}/"), ":<port>/"),
    (re.compile(r'(resourceVersion\\?":\\?")\d+'), r"\1<rv>"),
    (re.compile(r"^eyJ[\w-]+\.[\w-]+\.[\w-]+$"), "<token>"),
    (re.compile(r"\b(0x[0-9a-f]{6,})\b"), "<address>"),
)
_UNORDERED = {"resourceRules", "nonResourceRules"}  # of a review of a user's rules
_TIMED = re.compile(r"/(?:customresourcedefinitions|validatingadmissionpolicies)\b")
_OWN_WARNINGS = re.compile(r"no (?:controller|component|network plugin) (?:of this cluster|here) ")


def seen(got: Mapping[str, Any], names: Names, path: str, *, managed: bool) -> dict[str, Any]:
    """Return an answer to a request for `path` as it is compared."""
    if is_timed := bool(_TIMED.search(path)):
        names = names.fork()
        names.variables = {key: one for key, one in names.variables.items() if not key.startswith("rv")}
    body = _events(got["body"]) or got["body"]
    if isinstance(body, str) and "yaml" in got["contentType"]:
        body = yaml.safe_load(body)
    body = [normalise(one, names) for one in body] if isinstance(body, list) else normalise(body, names)
    body = _without_own(body if managed else without_managed_fields(body))
    if is_timed and isinstance(body, dict) and body.get("kind") == "ValidatingAdmissionPolicy":
        body.pop("status", None)
    found = {"status": got["status"], "contentType": got["contentType"], "body": body}
    if warnings := [_text(one) for one in got.get("warnings", ()) if not _OWN_WARNINGS.match(one)]:
        found["warnings"] = normalise(warnings, names)
    if "retryAfter" in got:
        found["retryAfter"] = got["retryAfter"]
    return found


def _events(text: Any) -> list[Any]:
    """Return the events of a watch; none if the answer is no watch."""
    lines = text.split("\n") if isinstance(text, str) and text.startswith('{"type":') else []
    try:
        events = [json.loads(line) for line in lines if line]
    except ValueError:
        return []
    return [one for one in events if one["type"] != "BOOKMARK" or "initial-events-end" in json.dumps(one)]


def _without_own(value: Any) -> Any:
    match value:
        case dict():
            found = {key: _without_own(one) for key, one in value.items()}
            for key in _UNORDERED & found.keys():
                found[key] = sorted(found[key] or (), key=json.dumps)
            notes = found.get("annotations")
            if isinstance(notes, dict) and DELETED_BY in notes:
                found["annotations"] = {key: one for key, one in notes.items() if key != DELETED_BY}
                if not found["annotations"]:
                    del found["annotations"]
            if isinstance(cells := found.get("cells"), list):
                found["cells"] = ["Running" if one == "Suspended" else one for one in cells]
            if isinstance(message := found.get("message"), str):
                if _OWN_WARNINGS.search(message):
                    return None
                found["message"] = _sorted(message)
            return found
        case list():
            items = [_without_own(one) for one in value]
            return [one for one in items if one is not None or None in value]
        case str():
            return _text(value)
    return value


def _sorted(message: str) -> str:
    """Return a message that ends with several errors, with these in an order."""
    start, opening, errors = message.partition(": [")
    return start + opening + ", ".join(sorted(errors[:-1].split(", "))) if errors.endswith("]") else message


def _text(value: str) -> str:
    for pattern, name in _WITHIN:
        value = pattern.sub(name, value) if name != "<time>" or not pattern.fullmatch(value) else value
    return value
