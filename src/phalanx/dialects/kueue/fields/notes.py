"""The parts of Kueue's objects, and of jobs with its labels, that have no effect in Phalanx, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Ignored, unused
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.fields.tables import CONFIGURATION, TABLES, WORDS
from phalanx.dialects.kueue.tree.configuration import (
    CONFIGURATIONS,
    KueueConfigurationError,
    decoded,
    read_configuration,
    text_of,
)

_HEAD = ("apiVersion", "kind")


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield a sentence for each field, label and annotation without effect."""
    if kind in TABLES:
        yield from unused(obj.get("spec") or {}, TABLES[kind])
        return
    if kind == kinds.PROVISIONING_REQUESTS.name:  # Phalanx makes these objects, with Kueue's labels
        return
    if kind == CONFIGURATIONS.name:
        yield from _of_configuration(obj)
        return
    spec = obj.get("spec") or {}
    for meta in (obj["metadata"], (spec.get("template") or {}).get("metadata") or {}):
        said: Mapping[str, object] = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
        for key in said:
            if key.startswith(kinds.PREFIX):
                yield from _word(key)


def _of_configuration(config_map: Object) -> Iterator[str]:
    """Yield the fields of Kueue's Configuration in a ConfigMap that have no effect, or why it cannot be read."""
    if (text := text_of(config_map)) is None:
        return
    try:
        said = decoded(text)
        read_configuration(said)
    except KueueConfigurationError as error:
        yield f"{error}; Kueue's defaults hold"
        return
    yield from unused({key: value for key, value in said.items() if key not in _HEAD}, CONFIGURATION, "")


def _word(key: str) -> Iterator[str]:
    match WORDS.get(key.removeprefix(kinds.PREFIX)):
        case Ignored(why):
            yield f"{key} has no effect: {why}"
        case None:
            yield f"{key} is not known here, and has no effect"
        case _:
            pass
