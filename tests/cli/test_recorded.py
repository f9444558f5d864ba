"""A real scheduler records its events and decisions; a replay decides the same."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.test_up import child
from tests.cli.upstart import Up, started, until

pytestmark = pytest.mark.slow


def submit(up: Up, name: str, *words: str) -> None:
    done = up.phalanx("submit", "--name", name, *words)
    assert done.returncode == 0, done.stderr


def complete(up: Up, *names: str) -> bool:
    listed = json.loads(up.phalanx("jobs", "--finished", "--json").stdout or "[]")
    states = {job["name"]: job["state"] for job in listed}
    return all(states.get(name) == "complete" for name in names)


@pytest.mark.long
def test_what_up_records_replays_as_recorded_also_over_a_crash(tmp_path: Path) -> None:
    recording, snapshot = tmp_path / "day.jsonl", tmp_path / "now.jsonl"
    with started(tmp_path / "data", "--record", str(recording), "--local-cpu", "4", "--stop-pods") as up:
        submit(up, "long", "--pods", "3", "--", "sleep", "3000")
        submit(up, "late", "--pods", "4", "--", "true")
        submit(up, "here", "--cpu", "100m", "--", "true")
        until(lambda: complete(up, "here"))
        os.kill(child(up, "control-plane"), signal.SIGKILL)
        up.read_until("the control plane is back")
        submit(up, "again", "--cpu", "100m", "--", "true")
        until(lambda: complete(up, "again"))
        assert up.phalanx("snapshot", str(snapshot)).returncode == 0
    done = up.phalanx("replay", str(recording))  # when nothing is added to it any more
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.endswith("steps, as recorded\n")
    assert "start default/here#1" in done.stdout
    begins = [json.loads(line)["begins"] for line in recording.read_text().splitlines()[1:]]
    assert begins.count(True) == 2
    assert "default/late" in up.phalanx("replay", str(snapshot)).stdout
