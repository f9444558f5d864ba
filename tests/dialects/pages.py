"""Compare the tables of a dialect with its definitions, and with the page of the docs that shows them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from phalanx.dialects.frame.fields import Use
from tests.dialects.kueue.test_fields_tables import fields, inside, row

Tables = Mapping[str, Mapping[str, Use]]
PAGES = Path(__file__).parents[2] / "docs" / "dialects"


def definitions(file: str) -> dict[str, Any]:
    """kind -> its CustomResourceDefinition, with the versions of every group that has a kind of that name."""
    found: dict[str, Any] = {}
    for body in json.loads(resources.files("phalanx.dialects").joinpath(file).read_text()):
        there = found.setdefault(body["spec"]["names"]["kind"], body)
        if there is not body:
            there["spec"]["versions"] += body["spec"]["versions"]
    return found


def differences(body: Mapping[str, Any], table: Mapping[str, Use]) -> tuple[set[str], set[str]]:
    """Fields that the table does not have, and what it has that is no field."""
    found = {
        field
        for version in body["spec"]["versions"]
        for field in fields(version["schema"]["openAPIV3Schema"])
        if field.partition(".")[0] not in {"apiVersion", "kind", "metadata"}
    }
    missing = {field for field in found if not any(field == own or inside(field, own) for own in table)}
    return missing, {own for own in table if not any(field == own or inside(field, own) for field in found)}


def with_tables(page: Path, tables: Tables) -> tuple[str, str]:
    """The page as it is, and as its tables say; PHALANX_REWRITE=1 writes it."""
    before = now = page.read_text()
    for kind, table in tables.items():
        lines = ["| field | becomes | how |", "|---|---|---|", *(row(path, use) for path, use in table.items())]
        head, found, after = now.partition(f"### {kind}\n\n")
        assert found, f"the page has no part {kind}"
        now = head + found + "\n".join(lines) + "\n\n" + after.partition("\n\n")[2]
    now = now.rstrip("\n") + "\n"
    if os.environ.get("PHALANX_REWRITE"):
        page.write_text(now)
    return before, now
