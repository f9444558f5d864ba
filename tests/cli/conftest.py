"""Fixtures for tests of simulations from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.study.simulation.trace_source import TraceSource

OWN = """
nodes:
- {name: n, count: 2, allocatable: {cpu: 8, nvidia.com/gpu: 4}}
jobs:
- {id: a, submit: 0, run: 1m, pods: 2, requests: {cpu: 2}}
- {id: b, submit: 10, run: 30s, requests: {cpu: 1}}
- {id: c, submit: 20, run: 1s, requests: {cpu: 4}}
"""


@pytest.fixture
def own(tmp_path: Path) -> TraceSource:
    (tmp_path / "own.yaml").write_text(OWN)
    return TraceSource(trace=tmp_path / "own.yaml")
