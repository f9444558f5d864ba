"""Validate the volumes of a pod: each must have exactly one valid source. Source: ValidateVolumes of
pkg/apis/core/validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.status import (
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from phalanx.embedded.apimachinery.schema import formats, quantity
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted
from phalanx.embedded.apiserver.registry.kinds.pods.containers import descending, field_selector, resource_selector
from phalanx.embedded.apiserver.registry.kinds.volume_sources import chosen_source

Source = Mapping[str, Any]

MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")


def volumes(found: Found, given: Sequence[Source], path: str) -> dict[str, Source]:
    """Check the volumes of a pod, and return the valid ones by name. Containers may mount only these."""
    right: dict[str, Source] = {}
    for index, volume in enumerate(given):
        here = f"{path}[{index}]"
        own: Found = []
        _source(own, volume, here)
        name = volume.get("name", "")
        if not name:
            own.append(required(f"{here}.name"))
        else:
            formatted(own, f"{here}.name", name, formats.dns_label)
        if name in right:
            own.append(duplicate(f"{here}.name", name))
        if own:
            found += own
        else:
            right[name] = volume
    return right


def _source(found: Found, volume: Source, path: str) -> None:
    sort = chosen_source(found, volume, [key for key in volume if key != "name"], path)
    source, here = volume.get(sort) or {}, f"{path}.{sort}"
    match sort:
        case "emptyDir":
            if (size := source.get("sizeLimit")) is not None and quantity.of(size) < 0:
                text = "SizeLimit field must be a valid resource quantity"
                found.append(forbidden_field(f"{here}.sizeLimit", text))
        case "secret" | "configMap":
            _mode(found, source.get("defaultMode"), f"{here}.defaultMode")
            _keys(found, source.get("items", ()), f"{here}.items")
        case "downwardAPI":
            _mode(found, source.get("defaultMode"), f"{here}.defaultMode")
            _downward(found, source.get("items", ()), here)
        case "projected":
            _projected(found, source, here)


def _mode(found: Found, mode: int | None, path: str) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        found.append(invalid_value(path, mode, MODE_TEXT))


def _keys(found: Found, items: Sequence[Source], path: str) -> None:
    for index, item in enumerate(items):
        here = f"{path}[{index}]"
        if not item.get("key"):
            found.append(required(f"{here}.key"))
        _item_path(found, item.get("path", ""), f"{here}.path")
        _mode(found, item.get("mode"), f"{here}.mode")


def _item_path(found: Found, text: str, path: str) -> None:
    if not text:
        found.append(required(path))
        return
    descending(found, text, path)
    if text.startswith("..") and not text.startswith("../"):
        found.append(invalid_value(path, text, "must not start with '..'"))


def _downward(found: Found, items: Sequence[Source], path: str) -> None:
    for item in items:
        _item_path(found, item.get("path", ""), f"{path}.path")
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            field_selector(found, field, VOLUME_FIELDS, f"{path}.fieldRef")
            if resource is not None:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                found.append(invalid_value(path, "resource", text))
        elif resource is not None:
            resource_selector(found, resource, f"{path}.resourceFieldRef", of_volume=True)
        else:
            found.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        _mode(found, item.get("mode"), f"{path}.mode")


def _projected(found: Found, source: Source, path: str) -> None:
    _mode(found, source.get("defaultMode"), f"{path}.defaultMode")
    places: set[str] = set()
    for index, projection in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        if len(projection) > 1:
            extra = list(projection)[1]
            found.append(forbidden_field(f"{here}.{extra}", "may not specify more than 1 volume type"))
        for key in ("secret", "configMap"):
            if (one := projection.get(key)) is not None:
                if not one.get("name"):
                    found.append(required(f"{here}.{key}.name"))
                _keys(found, one.get("items", ()), f"{here}.{key}.items")
        if (downward := projection.get("downwardAPI")) is not None:
            _downward(found, downward.get("items", ()), f"{here}.downwardAPI")
        if (token := projection.get("serviceAccountToken")) is not None:
            _token(found, token, f"{here}.serviceAccountToken", f"{path}.path")
        for key in ("secret", "configMap", "downwardAPI"):
            given = projection.get(key) or {}
            for item in given.get("items", ()):
                if item.get("path", "") in places:
                    shown = item["path"] if key == "downwardAPI" else given.get("name", "")
                    found.append(invalid_value(path, shown, "conflicting duplicate paths"))
                elif item.get("path"):
                    places.add(item["path"])


def _token(found: Found, token: Source, path: str, place: str) -> None:
    """Check the token source of a projected volume. `place`: the field path in error messages about the token's
    `path`."""
    seconds = token.get("expirationSeconds", 0)
    if seconds < 600:
        found.append(
            invalid_value(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        )
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        found.append(invalid_value(f"{path}.expirationSeconds", seconds, text))
    if not token.get("path"):
        found.append(required(place))
    else:
        descending(found, token["path"], place)
