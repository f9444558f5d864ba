"""Sixty scripts through a real Slurm and through Phalanx: states, exit codes, environment, outputs, squeue's and
sacct's lines.

For developers who have a Slurm: PHALANX_SLURM=DIR names the folder with its commands (sbatch, squeue, scontrol), of a
cluster of one node with 8 CPUs, whose default partition is `batch`, whose numbers are over 1000, and which sees the
same files under /tmp.

    PHALANX_SLURM=/usr/bin .venv/bin/pytest tests/slurm/test_clients_beside.py

Hosts, numbers, times and folders are removed. Other known differences are in `KNOWN`, with the reason in
docs/guide/slurm.md; a known difference that disappears also fails the test.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from phalanx.slurm.main import install
from tests.cli.upstart import started, until
from tests.slurm.beside.scripts import SCRIPTS, Script

THEIRS = os.environ.get("PHALANX_SLURM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not THEIRS, reason="PHALANX_SLURM does not name the commands of a real Slurm"),
]
LINE = "%i|%j|%P|%T|%D|%C|%l|%r"
FIELDS = ("JobState", "ExitCode", "Restarts", "NumNodes", "NumCPUs", "CPUs/Task", "TimeLimit", "Requeue")
ROW = "JobID,JobName,Partition,State,ExitCode,DerivedExitCode,AllocCPUS,ReqCPUS,AllocNodes,NTasks,Layout,Timelimit"
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
# Variables of a cluster's own making: addresses, ports, users' limits, and what a site's plug-ins set.
OWN = re.compile(r"^(SLURM_(CONF|TASK_PID|LAUNCH_NODE_IPADDR|SRUN_COMM_\w+|STEP_LAUNCHER_PORT|WORKING_CLUSTER|UMASK|PRIO_PROCESS|RLIMIT_\w+|CLUSTER_NAME|NODENAME|JOB_ACCOUNT|JOB_QOS|JOB_START_TIME|JOB_END_TIME)=.*)$")  # fmt: skip # noqa: E501 (one expression)
KNOWN = {"environment-of-an-array": "SLURM_JOB_ID: Slurm numbers tasks as they start, and the last has the array's own"}


class Side:
    """One of the two: its commands come first on the PATH."""

    def __init__(self, commands: str, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        clean = {name: text for name, text in environment.items() if not name.startswith(("SLURM", "SBATCH"))}
        self.environment = {**clean, "PATH": f"{commands}:{os.environ['PATH']}", "OURS": "mine", "TZ": "UTC"}

    def call(self, line: str, place: Path, **more: str) -> subprocess.CompletedProcess[str]:
        words, around = ["/bin/sh", "-c", line], {**self.environment, **more}
        return subprocess.run(words, cwd=place, env=around, capture_output=True, text=True, timeout=120, check=False)

    def play(self, script: Script) -> dict[str, str]:
        """Return the observations, by kind."""
        place = self.folder / script.name
        place.mkdir()
        (place / "job.sh").write_text(f"{script.head}\n{script.lines}\n")
        said = self.call(f"sbatch {script.options} job.sh 'one two' three", place)
        found = {"sbatch": f"{said.returncode} {said.stdout}{said.stderr}"}
        number = said.stdout.split()[-1] if said.returncode == 0 else ""
        if number:
            if script.then:
                self.call(script.then, place, JOB=number)
            until(lambda: self._over(number, place), timeout_s=300)
            lines = self.call(f"squeue -h -r -t all -j {number} -o '{LINE}'", place).stdout.splitlines()
            found["squeue"] = "\n".join(sorted(lines))
            shown = self.call(f"scontrol show job -o {number}", place).stdout.splitlines()
            found["scontrol"] = "\n".join(sorted(_fields(line) for line in shown))
            found["sacct"] = self._accounted(number, place)
        for file in sorted(place.iterdir()):
            if file.name != "job.sh":
                text = file.read_text(errors="replace").splitlines()
                found[f"file {file.name}"] = "\n".join(line for line in text if OWN.match(line) is None)
        return {_plain(what, number, self): _plain(text, number, self) for what, text in found.items()}

    def _accounted(self, number: str, place: Path) -> str:
        """Return sacct's output once it has the job's end, which both report a while after squeue."""

        def ended() -> bool:
            lines = self.call(f"sacct -n -P -j {number} -o Partition,End", place).stdout.splitlines()
            # Slurm tells a job's partition some seconds after the rest.
            return bool(lines) and not (lines[0].startswith("|") or any(line.endswith("|Unknown") for line in lines))

        until(ended, timeout_s=60)
        lines = self.call(f"sacct -n -P -j {number} -o {ROW}", place).stdout.splitlines()
        return "\n".join(sorted(re.sub(r"CANCELLED by \d+", "CANCELLED by UID", line) for line in lines))

    def _over(self, number: str, place: Path) -> bool:
        states = self.call(f"squeue -h -r -t all -j {number} -o %T", place).stdout.split()
        return bool(states) and set(states) <= ENDED


def _fields(line: str) -> str:
    known = dict(re.findall(r"(\S+?)=(\S*)", line))
    return " ".join(f"{name}={known.get(name)}" for name in FIELDS)


def _plain(text: str, number: str, side: Side) -> str:
    """Return the text without job numbers, folders and times."""
    text = text.replace(str(side.folder), "FOLDER")
    if number:
        for at in range(4):  # an array's tasks follow it
            text = re.sub(rf"(?<![\d.])0*{int(number) + at}(?!\d)", f"JOB+{at}" if at else "JOB", text)
    text = text.replace("365-00:00:00", "UNLIMITED")  # what Slurm's backfill makes of it
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "MOMENT", text)


@pytest.fixture(scope="module")
def both() -> Iterator[dict[str, tuple[dict[str, str], dict[str, str]]]]:
    """Yield the observations of each script on Slurm and on Phalanx."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place, ThreadPoolExecutor(6) as pool:
        folder = Path(place)
        folder.chmod(0o755)
        for name in ("theirs", "ours"):
            (folder / name).mkdir()
        there = Side(THEIRS, folder / "theirs", dict(os.environ))
        theirs = list(pool.map(there.play, SCRIPTS))
        with started(folder / "up", "--local-cpu", "8", "--local-memory", "16000Mi", "--local-gpu", "0") as up:
            install(folder / "bin")
            (folder / "slurm.conf").write_text("FirstJobId=5000\nPartitionName=batch Nodes=ALL Default=YES State=UP\n")
            assert up.phalanx("slurm", "configure", str(folder / "slurm.conf")).returncode == 0
            here = Side(str(folder / "bin"), folder / "ours", up.environment)
            ours = list(pool.map(here.play, SCRIPTS))
            up.stop()
        yield {script.name: pair for script, pair in zip(SCRIPTS, zip(theirs, ours, strict=True), strict=True)}


@pytest.mark.parametrize("name", [script.name for script in SCRIPTS])
def test_a_script_does_the_same_there_and_here(
    name: str, both: dict[str, tuple[dict[str, str], dict[str, str]]]
) -> None:
    theirs, ours = both[name]
    if name in KNOWN:
        assert theirs != ours, f"no difference any more: {KNOWN[name]}"
    else:
        assert ours == theirs
