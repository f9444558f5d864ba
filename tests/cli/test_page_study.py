"""A simulation and a recording, as state files that the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.commands.study.replay import replay
from phalanx.cli.views.page.study import read_state
from phalanx.dashboard.access import Viewer
from phalanx.dashboard.rows import Board
from phalanx.errors import PhalanxError
from phalanx.model.event import Submitted
from tests.cli.test_replay import BEGINNING, job, record
from tests.cli.test_simulate import simulate

WORKLOAD = """
nodes:
- {name: n, count: 2, allocatable: {cpu: 8, nvidia.com/gpu: 4}}
jobs:
- {id: early, submit: 0, run: 5m, pods: 2, requests: {nvidia.com/gpu: 4}, limit: 5m, user: ada, queue: x}
- {id: long, submit: 1m, run: 90m, requests: {nvidia.com/gpu: 4}, limit: 2h, user: ada, queue: x}
- {id: wide, submit: 2m, run: 1h, pods: 2, requests: {nvidia.com/gpu: 4}, limit: 2h, user: bo, queue: y}
- {id: short, submit: 3m, run: 10m, requests: {nvidia.com/gpu: 2}, limit: 20m, user: bo, queue: y}
- {id: after, submit: 20m, run: 1h, requests: {nvidia.com/gpu: 4}, limit: 9h, user: bo, queue: y}
- {id: last, submit: 21m, run: 1h, requests: {nvidia.com/gpu: 4}, limit: 9h, user: bo, queue: y}
- {id: more, submit: 22m, run: 1h, requests: {nvidia.com/gpu: 4}, limit: 9h, user: bo, queue: y}
"""


@pytest.mark.slow
async def test_a_simulation_is_shown_at_its_longest_queue(tmp_path: Path) -> None:
    workload, file = tmp_path / "week.yaml", tmp_path / "week.json"
    workload.write_text(WORKLOAD)
    assert simulate(workload, "--policy", "easy", "--state", file, "--processes", 1, "--json") == 0
    state, study = read_state(file)
    assert state.facts.study == "simulation of week.yaml under easy"
    assert state.facts.unit == "nvidia.com/gpu"
    jobs = state.jobs
    assert {name: job.state for name, job in jobs.items()} == {
        "long": "running",
        "wide": "queued",
        "after": "queued",
        "last": "queued",
        "more": "queued",
    }
    assert state.reasons[jobs["wide"].reason].code == "NoRoom"
    assert state.reasons[jobs["wide"].reason].numbers["holders"] == {"long": 4}
    assert jobs["wide"].start_s[2] is not None
    assert state.facts.head == "wide"
    assert set(state.played) >= {"wide"}
    past = {row.job: row for row in await study.past(0, state.facts.at_s)}
    assert {name: (row.user, row.backfilled) for name, row in past.items()} == {
        "early": ("ada", False),
        "short": ("bo", True),
    }
    assert (await study.history("wide"))[0][1] == "NoRoom"
    with pytest.raises(PhalanxError, match="has no forecasts"):
        await study.whatif("wide", "")


def test_a_recording_is_shown_after_its_last_replayed_step(tmp_path: Path) -> None:
    recording, file = tmp_path / "monday.jsonl", tmp_path / "now.json"
    record(recording, [*BEGINNING, Submitted(job("one", 2000)), Submitted(job("two", 1000))])
    assert replay(recording, state=file) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    state, _ = read_state(file)
    assert {name: job.state for name, job in state.jobs.items()} == {"one": "starting", "two": "queued"}
    assert state.reasons[state.jobs["two"].reason].code == "NoRoom"
    board = Board()
    board.publish(state)
    assert b"monday.jsonl" in board.whole()
    assert Viewer(name="ada").agent is None, "nobody can act on a study"


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"phalanx state": 2, "whole": {}}', '{"phalanx state": 1, "whole": {}}']
)
def test_what_is_no_state_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(content)
    with pytest.raises(PhalanxError, match=r"is not a state file|of version 2"):
        read_state(file)
