"""`phalanx demo`, for real, as `make demo` runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_none_of_six_finish_pod_by_pod_and_all_of_them_as_gangs(tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.svg"
    done = subprocess.run(
        (sys.executable, "-m", "phalanx.cli.app", "demo", "--json", "--timeline", str(timeline)),
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert (seen["pod_by_pod"]["finished"], seen["pod_by_pod"]["deadlocked"]) == (0, True)
    assert (seen["gangs"]["finished"], seen["gangs"]["counted_right"]) == (6, 6)
    assert seen["words"] > 100_000
    assert timeline.read_text().startswith("<?xml")
