"""`simulator/readers/muri.py`: the traces of Muri (Zhao et al., SIGCOMM'22), derived from Philly's."""

from __future__ import annotations

from phalanx.simulator.readers import muri
from phalanx.simulator.workload import GPU
from tests.simulator.builders import DATA


def test_muri() -> None:
    found = muri.read(DATA / "muri.csv")
    second = found.tasks[1]
    assert (second.job.id, second.job.submitted_s, second.run_s) == ("1", 201_694, 4_540_029.773055)
    assert second.job.roles[0].shape.requests == ((GPU, 8),)
