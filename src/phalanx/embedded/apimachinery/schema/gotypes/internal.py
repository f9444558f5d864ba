"""Print values as validation messages show them: in the form of kube-apiserver's internal Go types. Also print the
differences of two values.

Kube-apiserver validates objects of internal types. The fields of these types have no JSON names, and empty fields are
not omitted. So a message shows a container as `{"Name":"a","Image":"b","Command":null,…}`. The file
`internal_types.txt` describes these types:

- `[core]` begins the types of a package, one per line. A field is `GoName:type`, or `GoName/jsonName:type` if the name
  in JSON is not the Go name in lower camel case. `+Type` is an embedded struct, whose fields appear among the others.
- `s`, `i`, `b`, `q`, `t`, `o`, `y`, `x` stand for a string, number, boolean, quantity, time, IntOrString, bytes and
  arbitrary JSON.
- `*T`, `[]T` and `{}T` stand for a pointer, a list and a map. A type name without a prefix is a struct by value.
- The types of `[meta]` are the published types, and their fields have their JSON names. Their empty fields are omitted,
  except for fields that are marked with `!`.

Source of the facts: pkg/apis/*/types.go of Kubernetes 1.36.2 and the struct tags in k8s.io/api. The form of differences
is from k8s.io/apimachinery/pkg/util/diff.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

_ZEROS: Mapping[str, object] = {"s": "", "i": 0, "b": False, "q": "0", "o": 0}
_OF_POD = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """A field of an internal type. `shown`: the name that messages show; "" for an embedded struct. `name`: the name in
    JSON."""

    shown: str
    name: str
    type: str
    required: bool = False


def internal(value: Any, kind: str) -> object:
    """Return a value of the API in the form of an internal type (such as `core.PodTemplateSpec`), with the fields in
    Go's order."""
    match kind[0]:
        case "*":
            return None if value is None else internal(value, kind[1:])
        case "[":
            return [internal(one, kind[2:]) for one in value] if value else None
        case "{":
            return {key: internal(value[key], kind[2:]) for key in sorted(value)} if value else None
    if "." in kind:
        return _struct(value or {}, kind)
    return _ZEROS.get(kind) if value is None else value


def changes(old: object, new: object, kind: str) -> str:
    """Return the differences of two values of an internal type: the lines that differ, with three lines of context."""
    before, after = (f"{_indented(internal(one, kind))}\n".splitlines(keepends=True) for one in (old, new))
    return "".join(islice(difflib.unified_diff(before, after), 2, None))  # skip the first two lines, which name files


def _indented(value: object) -> str:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _struct(value: Mapping[str, Any], kind: str) -> dict[str, object]:
    if kind == "core.PodSpec":  # in the internal type, these fields are in the security context, which always exists
        moved = {key: value[key] for key in _OF_POD if key in value}
        value = {**value, "securityContext": {**(value.get("securityContext") or {}), **moved}}
    found: dict[str, Any] = {}
    for field in _types()[kind]:
        if not field.shown:
            found |= _struct(value.get(field.name, {}) if field.name else value, field.type)
            continue
        one = internal(value.get(field.name), field.type)
        if kind.startswith("meta.") and not one and not field.required:
            continue
        found[field.shown] = one
    return found


@cache
def _types() -> Mapping[str, tuple[_Field, ...]]:
    text = files("phalanx.embedded.apimachinery.schema.gotypes").joinpath("internal_types.txt").read_text()
    found: dict[str, tuple[_Field, ...]] = {}
    package = ""
    for line in text.replace("\n  ", " ").splitlines():
        if line.startswith("["):
            package = line.strip("[]")
            continue
        name, *fields = line.split()
        found[f"{package}.{name}"] = tuple(_field(package, one) for one in fields)
    return found


def _field(package: str, text: str) -> _Field:
    if text.startswith("+"):
        # The metadata of a template is an embedded struct in Go, but has a name in JSON.
        name = "metadata" if text == "+meta.ObjectMeta" else ""
        return _Field(shown="", name=name, type=_qualified(package, text[1:]))
    names, _, kind = text.partition(":")
    shown, _, name = names.rstrip("!").partition("/")
    usual = shown if package == "meta" else shown[0].lower() + shown[1:]
    return _Field(shown=shown, name=name or usual, type=_qualified(package, kind), required="!" in names)


def _qualified(package: str, kind: str) -> str:
    """Return a type with its package, such as `[]core.Container` for `[]Container`. In the file, a type of the same
    package is written without the package."""
    bare = kind.lstrip("*[]{}")
    if "." in bare or len(bare) == 1:
        return kind
    return f"{kind[: len(kind) - len(bare)]}{package}.{bare}"
