"""Every function, method and class is used somewhere, so that no dead code is left."""

from __future__ import annotations

import re
from collections import Counter

from .test_structure import ROOT, SOURCE, SOURCES

WORD = re.compile(r"\w+")
DEFINED = re.compile(r"^ *(?:async def|def|class) (\w+)")
# A library calls these functions by name: Python itself, notebooks, transports of asyncio, parsers of httptools.
CALLED = re.compile(
    r"__\w+__|_repr_html_|on_\w+|connection_(lost|made)|data_received|eof_received|(pause|resume)_writing"
)
HANDS_ON = re.compile(
    r" *@(?!property|staticmethod|dataclass)"
)  # a decorator that may pass the function on to a registry or a library


def test_what_is_defined_is_used() -> None:
    named = Counter(WORD.findall((ROOT / "pyproject.toml").read_text()))
    defined: dict[str, str] = {}
    for path in (*SOURCES, *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tools").rglob("*.py")):
        lines = path.read_text().splitlines()
        named.update(WORD.findall("\n".join(lines)))
        if not path.is_relative_to(SOURCE):
            continue
        for number, line in enumerate(lines):
            if (
                (found := DEFINED.match(line))
                and not CALLED.fullmatch(found[1])
                and not HANDS_ON.match(lines[number - 1])
            ):
                defined[found[1]] = f"{path.relative_to(SOURCE)}:{number + 1}"
    dead = {name: where for name, where in defined.items() if named[name] == 1}
    assert not dead, "delete what nobody calls; what only a test calls belongs into the test"
