"""Read a YAML or JSON file with the line number of each value, so that an error about a value can name its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from phalanx.dialects.schema.depth import require_shallow
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.dialects.schema.fields import Path as Place
from phalanx.errors import PhalanxError

Read = TypeVar("Read")


def read_placed(file: Path, read: Callable[[Fields], Read]) -> Read:
    """Call `read` with the fields of the file, and return its result. Raises PhalanxError with file, line and field if
    the file cannot be read."""
    try:
        text = file.read_text()
        require_shallow(text)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        values = yaml.load(text, Loader=yaml.CSafeLoader)
    except OSError as error:
        raise PhalanxError(f"{file}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise PhalanxError(f"{file}: this is not YAML: {' '.join(str(error).split())}") from None
    if values is None:
        raise PhalanxError(f"{file}: the file is empty")
    if (twice := _stated_twice(node)) is not None:
        raise PhalanxError(f"{file}:{twice.start_mark.line + 1}: {twice.value} is stated twice; leave one of them out")
    try:
        return read(Fields(values))
    except Misread as misread:
        raise PhalanxError(f"{file}:{line_of(node, misread.path)}: {misread}") from None


def _stated_twice(root: object) -> Any:
    """Return the YAML node of the first key that a mapping has twice; None if no mapping has a key twice."""
    # nodes that were already checked; a node may occur in several places because of aliases
    below, known = [root], set[int]()
    while below:
        node = below.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            below += node.value
        elif isinstance(node, yaml.MappingNode):
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            counts = Counter(key.value for key in keys)
            if any(count > 1 for count in counts.values()):
                return next(key for key in reversed(keys) if counts[key.value] > 1)
            below += (value for _, value in node.value)
    return None


def line_of(node: Any, path: Place) -> int:
    """Return the line of the value at `path` below `node`. If the value does not exist, return the line of the
    innermost existing value that would contain it."""
    line = 1
    for step in path:
        line = node.start_mark.line + 1 if node is not None else line
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(step)]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = [(node.value[step], node.value[step])]
        else:
            found = []
        if not found:
            return line
        line, node = found[0][0].start_mark.line + 1, found[0][1]
    return line
