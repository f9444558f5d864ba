"""`benchmarks/faults.py`, small: real processes are broken, and nothing is lost and nothing double."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import mostly_slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "faults.py"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", mostly_slow(["calls fail", "server restarted"], fast=0, sample=1))
def test_all_is_right_again(scene: str) -> None:
    command = (sys.executable, str(SCRIPT), "--jobs", "4", "--pods", "5", scene)
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    result = json.loads(done.stdout)
    assert result["wrong"] == []
    assert done.returncode == 0
