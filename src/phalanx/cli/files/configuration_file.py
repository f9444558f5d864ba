"""The texts of `queues.yaml` in a file: the file itself, or the ConfigMaps in it that hold one.

YuniKorn reads every key that ends in `.yaml`, and those of `binaryData` that end in `.yaml.gz`; which of them counts is
its setting `service.policyGroup`, `queues` by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from phalanx.dialects.yunikorn.dialect import unpacked
from phalanx.errors import PhalanxError

_KEY, _ZIPPED = "queues.yaml", "queues.yaml.gz"


def configuration_text(file: Path) -> str:
    """Return the queue configuration in the file. Raises PhalanxError."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}") from error
    try:
        found = [one for one in yaml.safe_load_all(text) if isinstance(one, Mapping) and one.get("kind") == "ConfigMap"]
    except (yaml.YAMLError, RecursionError):
        return text  # the reader of configurations reports the error and its line
    if not found:
        return text
    texts = [one for config_map in found if (one := _in_config_map(config_map)) is not None]
    if len(texts) != 1:
        held = "none of its ConfigMaps has" if not texts else "several of its ConfigMaps have"
        raise PhalanxError(f"{file}: {held} the key {_KEY}. Nothing was read. Give a file with one such ConfigMap.")
    return texts[0]


def _in_config_map(config_map: Mapping[str, Any]) -> str | None:
    plain, zipped = config_map.get("data") or {}, config_map.get("binaryData") or {}
    if isinstance(said := plain.get(_KEY), str):
        return said
    said = zipped.get(_ZIPPED)
    return unpacked(said) if isinstance(said, str) else None
