"""Checks the depth and the size of YAML from users before the YAML loader in C reads it. Deeply nested lists overflow
the stack of that loader and crash the process, and a hundred thousand names block all other requests while the loader
creates an object for each."""

from __future__ import annotations

import yaml

_DEEPEST = 200


def require_shallow(text: str, most: int | None = None) -> None:
    """Raises YAMLError if the text is not YAML, is nested deeper than any settings of Phalanx, or has more than `most`
    names and values."""
    depth, count = 0, 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        count += isinstance(event, yaml.events.NodeEvent)
        if isinstance(event, yaml.events.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"more than {_DEEPEST} lists or mappings are within each other")
        if most is not None and count > most:
            raise yaml.YAMLError(f"more than {most} names and values")
