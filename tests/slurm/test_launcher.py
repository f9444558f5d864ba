"""The shell program that runs a script in its pod, by itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from phalanx.slurm.submission.manifest import launcher


def launched(folder: Path, out: Path, *, sleeps: str) -> subprocess.CompletedProcess[str]:
    """The launcher, where `sleep` does this."""
    (folder / "bin").mkdir()
    (folder / "bin" / "sleep").write_text(f"#!/bin/sh\n{sleeps}\n")
    (folder / "bin" / "sleep").chmod(0o755)
    environment = {
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "TMPDIR": str(folder),
        "PHALANX_LAUNCHER": launcher(),
        "PHALANX_SCRIPT": "#!/bin/sh\necho done\n",
        "PHALANX_WORKDIR": str(folder),
        "PHALANX_STDOUT": str(out),
        "PHALANX_STDIN": "/dev/null",
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURMD_NODENAME": "n1",
    }
    command = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_it_waits_for_the_folder_of_its_outputs_which_clients_make_after_sbatch(tmp_path: Path) -> None:
    out = tmp_path / "logs" / "1" / "out"
    done = launched(tmp_path, out, sleeps=f"mkdir -p {out.parent}")
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "done\n"


@pytest.mark.parametrize("name", ["logs/out", "out"])
def test_it_does_not_wait_for_ever_nor_without_need(tmp_path: Path, name: str) -> None:
    done = launched(tmp_path, tmp_path / name, sleeps=f"echo >> {tmp_path / 'slept'}")
    assert (done.returncode == 0) is ("/" not in name)
    assert (tmp_path / "slept").exists() is ("/" in name)


def _with_daemon(folder: Path, script: str, **environment: str) -> bool:
    """Whether the daemon was begun while the script ran; `sleep 1` lasts as long as it says."""
    words = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    around = {
        "PATH": "/usr/bin:/bin", "TMPDIR": str(folder), "PHALANX_LAUNCHER": launcher(), "PHALANX_STDIN": "/dev/null",
        "PHALANX_SCRIPT": f"#!/bin/sh\n{script}\n", "PHALANX_WORKDIR": str(folder), "SLURM_JOB_ID": "1",
        "PHALANX_STDOUT": str(folder / "out"), "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "n1",
        "PHALANX_PYTHON": f"/usr/bin/touch {folder}/daemon", **environment,
    }  # fmt: skip
    done = subprocess.run(words, env=around, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return any(folder.glob("daemon.stepd*"))


@pytest.mark.parametrize(
    ("script", "environment", "begun"),
    [
        ("true", {}, False),
        ("until [ -e daemon.stepd ]; do sleep 0.05; done", {}, True),
        ("until [ -e daemon.stepd ]; do :; done", {"PHALANX_WARNING": "10 90 batch"}, True),
    ],
)
def test_a_job_of_a_moment_has_no_daemon(script: str, environment: dict[str, str], begun: bool, tmp_path: Path) -> None:
    assert _with_daemon(tmp_path, script, **environment) is begun
