"""YAML that somebody wrote, before the loader in C reads it: it overruns its stack where lists are in lists without
end, and that ends the process."""

from __future__ import annotations

import yaml

_DEEPEST = 200


def require_shallow(text: str) -> None:
    """Raises YAMLError: it is no YAML, or deeper than anything of ours is."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.events.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"more than {_DEEPEST} lists or mappings are within each other")
