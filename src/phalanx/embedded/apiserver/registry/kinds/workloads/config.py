"""ConfigMaps, Secrets and ServiceAccounts: validate their keys, their sizes, the types of Secrets, and immutable
objects.

Source: ValidateConfigMap, ValidateSecret and their updates in pkg/apis/core/validation.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import IMMUTABLE, Found, complain
from phalanx.embedded.apiserver.transport.go_json import syntax_error

LIMIT_BYTES = 1024 * 1024
_LOCATED_BYTES = 1000  # the position of a JSON error is computed only in texts up to this length
FROZEN = "field is immutable when `immutable` is set"
# The keys that each type of Secret must have.
REQUIRED_KEYS = {
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


class ConfigMapStrategy(ResourceStrategy):
    """The strategy of `configmaps`."""

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in data:
            complain(found, f"data[{key}]", key, formats.config_key(key))
            if key in binary:
                found.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            complain(found, f"binaryData[{key}]", key, formats.config_key(key))
        size = sum(len(value.encode()) for value in data.values()) + sum(_decoded(value) for value in binary.values())
        if size > LIMIT_BYTES:
            found.append(too_long("", LIMIT_BYTES))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _frozen(obj, old, ("data", "binaryData"))


class SecretStrategy(ResourceStrategy):
    """The strategy of `secrets`."""

    def default(self, obj: Object) -> None:
        obj.setdefault("type", "Opaque")
        if texts := obj.pop("stringData", None):
            written = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            obj["data"] = {**(obj.get("data") or {}), **written}  # a new mapping, because readers share the stored data

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        data: Mapping[str, str] = obj.get("data") or {}
        for key in data:
            complain(found, f"data[{key}]", key, formats.config_key(key))
        if sum(_decoded(value) for value in data.values()) > LIMIT_BYTES:
            found.append(too_long("data", LIMIT_BYTES))
        _typed(found, obj, data)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        if obj.get("type") != old.get("type"):
            found.append(invalid_value("type", obj.get("type", ""), IMMUTABLE))
        return found + _frozen(obj, old, ("data",))

    def selectable_names(self) -> Iterable[str]:
        return ("type",)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"type": obj.get("type", "")}


class ServiceAccountStrategy(ResourceStrategy):
    """The strategy of `serviceaccounts`."""

    delete_returns_object = True


def _frozen(obj: Object, old: Object, fields: Iterable[str]) -> list[Cause]:
    """Return an error for each changed field of an object that is marked as immutable."""
    if not old.get("immutable"):
        return []
    found = [] if obj.get("immutable") else [forbidden_field("immutable", FROZEN)]
    return found + [forbidden_field(field, FROZEN) for field in fields if obj.get(field) != old.get(field)]


def _decoded(value: str) -> int:
    """Return the number of bytes that a base64 string encodes."""
    return len(value) * 3 // 4 - value.count("=", -2)


def _typed(found: Found, secret: Object, data: Mapping[str, str]) -> None:
    sort = secret.get("type", "")
    for key in REQUIRED_KEYS.get(sort, ()):
        if key not in data:
            found.append(required(f"data[{key}]"))
    if sort == "kubernetes.io/service-account-token":
        name = "kubernetes.io/service-account.name"
        if not (secret["metadata"].get("annotations") or {}).get(name):
            found.append(required(f"metadata.annotations[{name}]"))
    elif sort == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        found += [required("data[username]"), required("data[password]")]
    elif sort in DOCKER_KEYS:
        name = DOCKER_KEYS[sort]
        if name not in data:
            found.append(required(f"data[{name}]"))
        elif problem := _not_json(base64.b64decode(data[name])):
            found.append(invalid_value(f"data[{name}]", "<secret contents redacted>", problem))


def _not_json(value: bytes) -> str:
    """Return the error of a text that is not JSON; "" for valid JSON."""
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return (syntax_error(value) if len(value) <= _LOCATED_BYTES else "") or "invalid JSON"
    return ""
