"""`phalanx up` in the background, what `status` says of it, and `phalanx down`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx.cli.local.data_directory import DataDirectory, is_running
from phalanx.cli.local.detached import start, stop
from phalanx.errors import PhalanxError
from tests.cli.upstart import PHALANX


def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = {**os.environ, **environment}
    return subprocess.run((*PHALANX, *words), env=done, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_up_in_the_background_status_and_down(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    began = call("up", "--detach", "--data", data, "--port", "0", "--local-cpu", "2", "--kinds", "spark")
    try:
        assert began.returncode == 0, began.stderr
        assert "`phalanx down` stops it." in began.stdout
        assert "run the Kubeflow Spark operator beside phalanx up" in began.stdout
        assert f"kubeconfig  {data}/kubeconfig" in began.stdout
        assert is_running(DataDirectory(Path(data)))
        assert "is in use by another `phalanx up`" in call("up", "--detach", "--data", data, "--port", "0").stderr
        here = ("--kubeconfig", f"{data}/kubeconfig")
        assert call("submit", *here, "--hold", "--", "true").returncode == 0
        seen = call("status", *here, "--json")
        found = json.loads(seen.stdout)
        assert (seen.returncode, found["nodes"], found["queues"]) == (0, {"ready": 1, "not_ready": 0}, 1)
        assert found["jobs"] == {"held": 1}
        assert found["scheduler"]["renewed_s_ago"] < 60
        assert "jobs       1 held" in call("status", *here).stdout
    finally:
        ended = call("down", "--data", data, "--json")
    assert json.loads(ended.stdout)["said"] == "stopped; no pod was running"
    assert not is_running(DataDirectory(Path(data)))
    assert "no `phalanx up` runs in" in call("down", "--data", data).stderr


def test_an_error_of_several_lines_is_printed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = "it ended. Its last words:\\n  no such object\\nAll is in x.log."
    ends = f"import sys; sys.exit('starting\\nphalanx: error: {error}')"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{ends}"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(PhalanxError) as caught:
        start(DataDirectory(tmp_path), ["up"], 120.0)
    assert str(caught.value).splitlines() == error.split("\\n")


@pytest.mark.slow
def test_what_cannot_start_in_the_background_says_why(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"--local-cpu '-3': the amount must be more than 0"):
        start(DataDirectory(tmp_path), ["up", "--data", str(tmp_path), "--local-cpu", "-3"], 120.0)
    (tmp_path / "file").touch()
    with pytest.raises(PhalanxError, match="cannot write the data directory"):
        start(DataDirectory(tmp_path / "file" / "data"), ["up"], 120.0)
    with pytest.raises(PhalanxError, match="no `phalanx up` runs in"):
        stop(DataDirectory(tmp_path), 1.0)
