"""Read YuniKorn's queue configuration from a file: a `queues.yaml`, or a manifest with the ConfigMap that contains it.

YuniKorn accepts every key that ends with `.yaml`, and in `binaryData` every key that ends with `.yaml.gz`. YuniKorn's
setting `service.policyGroup` selects one of these keys; the default is `queues`. Phalanx reads only this default.
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
    """Return the text of the queue configuration in the file. Raises PhalanxError if the file cannot be read, or if the
    number of queue configurations in its ConfigMaps is not 1."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}") from error
    try:
        found = [one for one in yaml.safe_load_all(text) if isinstance(one, Mapping) and one.get("kind") == "ConfigMap"]
    except (yaml.YAMLError, RecursionError):
        return text  # the parser of the configuration will report the error and its line
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
