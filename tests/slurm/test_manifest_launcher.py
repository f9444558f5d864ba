"""The shell program that runs a script in its pod, by itself."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.slurm.submission.manifest import launcher
from tests.cli.upstart import until


def launched(folder: Path, out: Path, *, sleeps: str, **more: str) -> subprocess.CompletedProcess[str]:
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
        **more,
    }
    command = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_it_waits_for_the_folder_of_its_outputs_which_clients_make_after_sbatch(tmp_path: Path) -> None:
    out = tmp_path / "logs" / "1" / "out"
    done = launched(tmp_path, out, sleeps=f"mkdir -p {out.parent}")
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "done\n"


def test_one_file_for_output_and_errors_loses_no_line(tmp_path: Path) -> None:
    script = "#!/bin/sh\necho 1\necho 2 >&2\necho 3\necho 4 >&2\n"
    out = tmp_path / "x.log"
    same = str(tmp_path / "." / "x.log")
    assert launched(tmp_path, out, sleeps="", PHALANX_SCRIPT=script, PHALANX_STDERR=same).returncode == 0
    assert out.read_text() == "1\n2\n3\n4\n"


@pytest.mark.parametrize(
    ("tmpdir", "seen", "told"),
    [
        ("", "/tmp", ""),
        ("made", "made", ""),
        (
            "no/such",
            "/tmp",
            "slurmstepd-n1: error: Unable to create TMPDIR [no/such]: No such file or directory\n"
            "slurmstepd-n1: error: Setting TMPDIR to /tmp\n",
        ),
    ],
)
def test_the_tmpdir_of_a_script_exists(tmp_path: Path, tmpdir: str, seen: str, told: str) -> None:
    out = tmp_path / "x.log"
    wanted, more = (
        str(tmp_path / tmpdir) if tmpdir else "",
        {"PHALANX_SCRIPT": '#!/bin/sh\ncd "$TMPDIR" && echo $TMPDIR\n'},
    )
    done = launched(tmp_path, out, sleeps="", TMPDIR=wanted, LC_ALL="C", **more)
    assert (done.returncode, out.read_text().replace(f"{tmp_path}/", "")) == (0, f"{told}{seen}\n")


@pytest.mark.parametrize("name", ["logs/out", "out"])
def test_it_does_not_wait_for_ever_nor_without_need(tmp_path: Path, name: str) -> None:
    done = launched(tmp_path, tmp_path / name, sleeps=f"echo >> {tmp_path / 'slept'}")
    assert (done.returncode == 0) is ("/" not in name)
    assert (tmp_path / "slept").exists() is ("/" in name)
    assert [*tmp_path.glob("phalanx-slurm.*")] == []  # the script's copy is gone, also where its output has no place


@pytest.mark.parametrize("ends", ["exit 12", "trap - TERM; kill $$"])
def test_a_script_that_ends_as_soon_as_it_is_told_to_has_its_own_exit_code(ends: str, tmp_path: Path) -> None:
    """SIGTERM goes to the process group, so a script may be over before the launcher has written that it is told."""
    (tmp_path / "bin").mkdir()
    # The moment that is written to the output is told once the script has ended.
    until_gone = 'while grep -qs "^State:.[^Z]" "/proc/$(cat pid)/status"; do /bin/sleep 0.01; done'
    (tmp_path / "bin" / "date").write_text(f'#!/bin/sh\ntrap "" TERM\n[ "$1" = +%s ] || {until_gone}\necho 0\n')
    (tmp_path / "bin" / "date").chmod(0o755)
    script = f"trap '{ends}' TERM; echo $$ > up; mv up pid; while :; do /bin/sleep 0.01; done"
    environment = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "TMPDIR": str(tmp_path), "PHALANX_LAUNCHER": launcher(),
        "PHALANX_SCRIPT": f"#!/bin/sh\n{script}\n", "PHALANX_WORKDIR": str(tmp_path), "SLURM_JOB_ID": "1",
        "PHALANX_STDIN": "/dev/null", "PHALANX_STDOUT": str(tmp_path / "out"), "SLURM_JOB_NUM_NODES": "1",
        "SLURMD_NODENAME": "n1",
    }  # fmt: skip
    words = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    with subprocess.Popen(words, env=environment, cwd=tmp_path, start_new_session=True) as launched:
        until((tmp_path / "pid").exists)
        os.killpg(launched.pid, signal.SIGTERM)
        assert launched.wait(120) == (12 if ends == "exit 12" else 128 + signal.SIGTERM)
    assert "slurmstepd-n1: error: *** JOB 1 ON n1 CANCELLED AT 0 ***" in (tmp_path / "out").read_text().splitlines()


def _with_daemon(folder: Path, script: str, **environment: str) -> bool:
    """Whether the daemon was begun while the script ran."""
    words = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    around = {
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin", "TMPDIR": str(folder), "PHALANX_LAUNCHER": launcher(),
        "PHALANX_SCRIPT": f"#!/bin/sh\n{script}\n", "PHALANX_WORKDIR": str(folder), "SLURM_JOB_ID": "1",
        "PHALANX_STDIN": "/dev/null",
        "PHALANX_STDOUT": str(folder / "out"), "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "n1",
        "PHALANX_PYTHON": f"/usr/bin/touch {folder}/daemon", **environment,
    }  # fmt: skip
    done = subprocess.run(words, env=around, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return any(folder.glob("daemon.stepd*"))


@pytest.mark.parametrize(
    ("script", "environment", "begun"),
    [
        ("until [ -e sleeps ]; do /bin/sleep 0.01; done", {}, False),
        ("until [ -e sleeps ]; do /bin/sleep 0.01; done; touch wake; until [ -e daemon.stepd ]; do :; done", {}, True),
        ("until [ -e daemon.stepd ]; do :; done", {"PHALANX_WARNING": "10 90 batch"}, True),
    ],
)
def test_a_job_of_a_moment_has_no_daemon(script: str, environment: dict[str, str], begun: bool, tmp_path: Path) -> None:
    """The `sleep 1` of the launcher, before it begins the daemon, lasts until the script lets it end."""
    sleeps = f"touch {tmp_path}/sleeps; until [ -e {tmp_path}/wake ]; do /bin/sleep 0.01; done"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").write_text(f"#!/bin/sh\nexec > /dev/null 2>&1\n{sleeps}\n")
    (tmp_path / "bin" / "sleep").chmod(0o755)
    try:
        assert _with_daemon(tmp_path, script, **environment) is begun
    finally:
        (tmp_path / "wake").touch()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _on_a_full_disk(disk: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    around = {
        "PATH": "/usr/bin:/bin", "TMPDIR": str(disk.parent), "PHALANX_LAUNCHER": launcher(), "LC_ALL": "C",
        "PHALANX_SCRIPT": f"#!/bin/sh\n{script}\n", "PHALANX_WORKDIR": "/", "PHALANX_STDIN": "/dev/null",
        "PHALANX_STDOUT": str(disk / "out"), "PHALANX_STDERR": str(disk.parent / "err"), "SLURM_JOB_ID": "1",
        "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "n1", **environment,
    }  # fmt: skip
    words = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    return subprocess.run(words, env=around, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("after", "code"), [("", 1), ("exit 0", 0)])
def test_a_full_disk_is_told_to_the_script_that_writes_and_its_exit_code_decides(
    small_disk: Path, after: str, code: int
) -> None:
    done = _on_a_full_disk(small_disk, f"head -c 100000 /dev/zero\n{after}")
    assert done.returncode == code
    assert "No space left on device" in (small_disk.parent / "err").read_text()
    assert 0 < (small_disk / "out").stat().st_size <= 65536
    assert [*small_disk.parent.glob("phalanx-slurm.*")] == []  # the script's copy is gone


def test_where_the_script_itself_has_no_room_the_job_fails_and_says_why(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    done = _on_a_full_disk(small_disk, "true", TMPDIR=str(small_disk), PHALANX_STDOUT="/dev/null")
    assert done.returncode == 1
    folder = f"{small_disk}/phalanx-slurm."
    assert f"slurmstepd-n1: error: the script cannot be written to {folder}" in done.stderr
    assert "no space left there?" in done.stderr
    assert [*small_disk.glob("phalanx-slurm.*")] == []


def test_it_starts_no_program_that_the_shell_can_do_without(tmp_path: Path) -> None:
    """Each takes a millisecond of every job. A launcher with more programs than these would not find them here."""
    own = tmp_path / "programs"
    own.mkdir()
    for name in ("mktemp", "chmod", "rm", "sleep"):
        (own / name).symlink_to(shutil.which(name) or name)
    out = tmp_path / "\x01N-\x01N.out"
    done = launched(tmp_path, out, sleeps="", PATH=str(own), SLURM_JOB_UID="0", SLURMD_NODENAME="n1.example")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "n1-n1.out").read_text() == "done\n"


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        (signal.SIGHUP, " DUE TO JOB REQUEUE"),
        (signal.SIGQUIT, " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
        (None, ""),
    ],
)
def test_the_launcher_writes_why_the_job_was_cancelled(
    first: signal.Signals | None, cause: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    environment = {
        "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PHALANX_LAUNCHER": launcher(),
        "PHALANX_SCRIPT": "#!/bin/sh\necho begun\nexec sleep 3000\n", "PHALANX_WORKDIR": str(tmp_path),
        "PHALANX_STDOUT": str(out), "PHALANX_STDIN": "/dev/null", "SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1",
        "SLURMD_NODENAME": "n1",
    }  # fmt: skip
    words = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    with subprocess.Popen(words, env=environment) as process:
        until(lambda: out.exists() and "begun" in out.read_text())
        for number in (first, signal.SIGHUP if first else None, signal.SIGTERM):
            if number is not None:
                process.send_signal(number)
        process.wait(60)
    [line] = [line for line in out.read_text().splitlines() if "CANCELLED AT" in line]
    assert re.sub(r"AT \S+", "AT T", line) == f"slurmstepd-n1: error: *** JOB 1 ON n1 CANCELLED AT T{cause} ***"
