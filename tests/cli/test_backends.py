"""`cli/local/node_groups/backends.py`: calls of programs and web servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phalanx.cli.local.node_groups.backends import documents, hostlist
from phalanx.providers.counted.called import Program, Webhook
from tests.cli.test_providers import groups


def test_the_backend_calls_the_program_or_the_server(tmp_path: Path) -> None:
    program, server = groups(
        tmp_path,
        "name: rack, provider: {exec: {command: [/bin/true], timeout: 7s}}, allocatable: {cpu: 8}",
        "name: web, provider: {webhook: {url: 'http://127.0.0.1:1/n'}}, allocatable: {cpu: 8}",
    )
    found: Any = [documents(each.provider) for each in (program, server)]
    assert [type(each._caller) for each in found] == [Program, Webhook]


def test_names_of_slurms_nodes_are_a_hostlist() -> None:
    assert hostlist(["n1", "n2", "n4"]) == "n[1-2,4]"
