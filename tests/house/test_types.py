"""Few lines use `Any`, which turns the type checker off. The number of these lines may only fall.

Three kinds of types can stand in its place. `object` is for a value that is only passed on, compared, or checked with
`isinstance`. A `TypedDict` is for an object that the code reads: `phalanx.kube.read.wire` has those of pods and nodes.
A `Protocol` is for a value whose methods the code calls."""

from __future__ import annotations

import re

from .test_structure import SOURCES, where

ANY_LINES = 872  # lines that use `Any`, without imports
NAME = re.compile(r"\bAny\b")


def uses(text: str) -> int:
    """Return the number of lines that use `Any`. An import is no use."""
    return sum(1 for line in text.splitlines() if NAME.search(line) and not re.match(r" *(from|import) ", line))


def test_few_lines_use_any() -> None:
    found = {where(path): count for path in SOURCES if (count := uses(path.read_text()))}
    total, most = sum(found.values()), sorted(found, key=found.__getitem__, reverse=True)[:10]
    assert total <= ANY_LINES, f"{total} lines use Any: use object, a TypedDict or a Protocol. Most are in {most}"
    assert total > ANY_LINES - 25, f"fewer lines use Any: lower the ceiling to {total}"


def test_which_lines_count() -> None:
    text = "from typing import Any\n\n\ndef f(x: Any, y: Any) -> Any:\n    return x\n\n\ndef g(x: dict[str, Any]): ..."
    assert uses(text) == 2
    assert uses("from typing import Any\nAnyone = object\nfound = [each for each in x]\n") == 0
