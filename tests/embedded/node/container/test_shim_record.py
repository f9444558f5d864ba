"""`shim/record.py`: the types of the shim's specification, and the files that the shim writes."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path

import pytest

from phalanx.embedded.node.container.attempt import Mount, Process, Root, RunSpec
from phalanx.embedded.node.container.shim.record import (
    ShimMount,
    ShimProcess,
    ShimRoot,
    ShimSpec,
    start_ticks,
    write_whole,
)

TYPES = [(ShimSpec, RunSpec), (ShimMount, Mount), (ShimRoot, Root), (ShimProcess, Process)]


@pytest.mark.parametrize(("read", "written"), TYPES)
def test_the_shim_reads_only_fields_that_the_agent_writes(read: type, written: type) -> None:
    of_commands = {"pid"} if read is ShimSpec else set()  # only commands that enter the container have this field
    assert read.__annotations__.keys() - of_commands <= {field.name for field in fields(written)}


def test_a_record_replaces_the_earlier_one_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "c.run.json"
    for number in (1, 2):
        write_whole(str(path), {"pid": number})
    assert json.loads(path.read_text()) == {"pid": 2}
    assert [one.name for one in tmp_path.iterdir()] == ["c.run.json"]


def test_a_process_keeps_its_start_time() -> None:
    assert start_ticks(os.getpid()) == start_ticks(os.getpid()) > 0
