"""Check the depth and the size of users' YAML before the YAML loader, which is written in C, reads it. Deeply nested
lists overflow the stack of that loader and crash the process. While the loader creates the objects for a text with a
hundred thousand names, the process serves no other request."""

from __future__ import annotations

import yaml

_DEEPEST = 200


def require_shallow(text: str, most: int | None = None) -> None:
    """Raise YAMLError if the text is not YAML, if it is nested deeper than any settings of Phalanx can be, or if it has
    more than `most` names and values."""
    depth, count = 0, 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        count += isinstance(event, yaml.events.NodeEvent)
        if isinstance(event, yaml.events.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"lists and mappings are nested more than {_DEEPEST} levels deep")
        if most is not None and count > most:
            raise yaml.YAMLError(f"more than {most} names and values")
