"""`dialects/yunikorn/placement.py`: queues that placement rules create."""

from __future__ import annotations

import os
from typing import Any

from phalanx.dialects.frame.fields import Ignored
from phalanx.dialects.yunikorn.gangs import POD
from phalanx.dialects.yunikorn.placement import NAMESPACE as NAMESPACE_TABLE
from phalanx.dialects.yunikorn.queues import TABLE
from tests.dialects.yunikorn.test_dialect import PAGE


def row(path: str, use: Any) -> str:
    if isinstance(use, Ignored):
        return f"| `{path}` | – | {use.why} |"
    return f"| `{path}` | {use.field if use.field == '–' else f'`{use.field}`'} | {use.how} |"


def test_the_page_shows_the_tables() -> None:
    now = page = PAGE.read_text()
    for title, table in (("Queues", TABLE), ("Pods", POD), ("Namespaces", NAMESPACE_TABLE)):
        lines = ["| field | becomes | how |", "|---|---|---|", *(row(path, use) for path, use in table.items())]
        before, _, after = now.partition(f"## {title}\n\n")
        now = f"{before}## {title}\n\n" + "\n".join(lines) + "\n\n" + after.partition("|\n\n")[2]
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    assert page == now, (
        "the table has changed: PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/yunikorn/test_dialect.py"
    )
