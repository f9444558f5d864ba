"""YAML that somebody wrote, before the loader in C reads it: it overruns its stack where lists are in lists without
end, and that ends the process; and what makes a node of each of a hundred thousand names holds up everybody else."""

from __future__ import annotations

import yaml

_DEEPEST = 200


def require_shallow(text: str, most: int | None = None) -> None:
    """Raises YAMLError: it is no YAML, is deeper than anything of ours is, or has more than `most` names and values."""
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
