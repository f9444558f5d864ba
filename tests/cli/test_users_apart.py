"""Two users of the machine, made for the test, at Slurm's commands of one `phalanx up --shared`: what one may do to the
other, and what each sees. Needs root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.upstart import Up, started, until
from tests.kubectl import KUBECTL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a machine can be shared by root alone"),
    pytest.mark.skipif(shutil.which("useradd") is None, reason="this machine has no useradd to make users with"),
]
NAMES = tuple(f"phx{os.getpid()}{which}" for which in "ab")  # several workers may run these tests side by side


@dataclass(frozen=True, kw_only=True)
class Person:
    """A user of the machine; `call` runs words as that user, at home."""

    name: str
    uid: int
    home: Path
    commands: Path

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        around = {
            "PATH": f"{self.commands}:{os.environ['PATH']}", "HOME": str(self.home), "USER": self.name,
            "KUBECONFIG": str(self.home / "kubeconfig"), "TZ": "UTC",
            "LD_LIBRARY_PATH": str(self.commands.parent / "python" / "lib"),  # of the copy, if there is one
        }  # fmt: skip
        return subprocess.run(
            words, env=around, cwd=self.home, user=self.uid, group=self.uid, extra_groups=[], capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip

    def __call__(self, *words: str) -> str:
        done = self.call(*words)
        assert done.returncode == 0, (words, done)
        return done.stdout


@dataclass(frozen=True, kw_only=True)
class Machine:
    up: Up
    first: Person
    second: Person

    def root(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.first.commands}:{os.environ['PATH']}"
        around = {**self.up.environment, "PATH": path, "TZ": "UTC"}
        return subprocess.run(words, env=around, cwd="/", capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def people() -> Iterator[dict[str, int]]:
    made = []
    try:
        for name in NAMES:
            done = subprocess.run(("useradd", "-M", "-U", name), capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no user can be made here: {done.stderr.strip()}")
            made.append(name)
        yield {name: pwd.getpwnam(name).pw_uid for name in NAMES}
    finally:
        for name in made:
            subprocess.run(("userdel", name), capture_output=True, check=False)


INSTALL = "from pathlib import Path; from phalanx.slurm.main import install; install(Path({!r}))"


def open_python(folder: Path, uid: int) -> Path:
    """An interpreter with our packages that every user may start: this one, or a copy where it lies in root's home."""
    mine = Path(sys.executable)
    try:
        subprocess.run(
            (mine, "-I", "-c", "import phalanx"), user=uid, group=uid, extra_groups=[], check=True, timeout=120
        )
    except (OSError, subprocess.SubprocessError):
        copy = folder / "python"
        subprocess.run(("cp", "-al", sys.base_prefix, copy), check=True, timeout=300)
        subprocess.run(
            (copy / "bin" / "python3", "-m", "venv", "--without-pip", folder / "venv"), check=True, timeout=120
        )
        [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
        paths = [path for path in sys.path if path.endswith(("site-packages", "src"))]
        if any(path.startswith("/tmp/") for path in paths):
            pytest.skip("the project lies in /tmp, but a pod has its own /tmp, so its users could not import Phalanx")
        (packages / "ours.pth").write_text("\n".join(paths))
        return folder / "venv" / "bin" / "python"
    return mine


@pytest.fixture(scope="module")
def machine(people: dict[str, int]) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="phalanx-apart-", dir="/var/lib") as folder:  # a pod's /tmp is its own
        place = Path(folder)
        place.chmod(0o755)
        commands, python = place / "bin", open_python(place, next(iter(people.values())))
        subprocess.run((python, "-I", "-c", INSTALL.format(str(commands))), check=True, timeout=120)
        words = ("--shared", "--login-socket", str(place / "login.sock"), "--local-cpu", "4", "--local-open-network")
        with started(place / "data", *words) as up:
            until(lambda: (place / "login.sock").exists())
            found = []
            for name, uid in people.items():
                home = place / name
                home.mkdir(mode=0o700)
                os.chown(home, uid, uid)
                person = Person(name=name, uid=uid, home=home, commands=commands)
                person(
                    str(python),
                    "-m",
                    "phalanx.cli.app",
                    "login",
                    "--login-socket",
                    str(place / "login.sock"),
                    "--output",
                    "kubeconfig",
                )
                found.append(person)
            whole = Machine(up=up, first=found[0], second=found[1])
            yield whole
            for name in NAMES:  # pods outlive `up`, and a user with processes cannot be deleted
                cancelled = whole.root("scancel", "-u", name)
                assert cancelled.returncode == 0, cancelled.stderr
            until(lambda: not whole.root("squeue", "-h", "-t", "running,pending,completing").stdout)
            up.stop()


@pytest.fixture(scope="module")
def job(machine: Machine) -> str:
    """A job of the first user's that runs."""
    number = machine.first("sbatch", "--parsable", "-J", "hers", "--comment", "hush", "-n3", "--wrap", "sleep 3000")
    number = number.strip()
    until(lambda: machine.first("squeue", "-h", "-j", number, "-o", "%T|%N").startswith("RUNNING|"))
    until(lambda: not machine.first("squeue", "-h", "-j", number, "-o", "%N").isspace())
    return number


def test_no_step_runs_as_another_user(machine: Machine, job: str) -> None:
    assert machine.first("srun", f"--jobid={job}", "--overlap", "-n1", "id", "-u").strip() == str(machine.first.uid)
    done = machine.second.call("srun", f"--jobid={job}", "--overlap", "-n1", "id", "-u")
    assert (done.returncode, done.stdout) != (0, str(machine.first.uid) + "\n")
    assert str(machine.first.uid) not in done.stdout
    space = f"user-{machine.first.name}"
    for words in (
        ("get", "secret", f"slurm-{job}"),
        ("exec", f"job/slurm-{job}", "--", "id"),
        ("delete", "job", f"slurm-{job}"),
        ("delete", "jobs", "--all"),
        ("annotate", "job", f"slurm-{job}", "phalanx.dev/hold=x"),
    ):
        refused = machine.second.call(KUBECTL, "-n", space, *words)
        assert "orbidden" in refused.stderr, (words, refused)


def test_slurms_commands_refuse_in_slurms_words(machine: Machine, job: str) -> None:
    denied, invalid = "Access/permission denied", "Invalid user id"  # as measured with 22.05
    for said, words in (
        (denied, ("scancel", job)),
        (denied, ("scontrol", "requeue", job)),
        (denied, ("scontrol", "suspend", job)),
        (invalid, ("scontrol", "update", f"JobId={job}", "Name=mine")),
    ):
        done = machine.second.call(*words)
        assert done.returncode != 0, (words, done)
        assert said in done.stderr, (words, done)
    assert machine.first("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING\n"


def test_all_see_what_runs_and_how_busy_nodes_are(machine: Machine, job: str) -> None:
    node = machine.first("squeue", "-h", "-j", job, "-o", "%N").strip()
    row = f"{job}|hers|{machine.first.name}|RUNNING|{node}\n"
    assert machine.second("squeue", "-h", "-o", "%A|%j|%u|%T|%N") == row
    root = machine.root("squeue", "-h", "-o", "%A|%j|%u|%T|%N")
    assert root.stdout == row, root
    for cpus in (machine.second("sinfo", "-h", "-o", "%C"), machine.root("sinfo", "-h", "-o", "%C").stdout):
        assert cpus == "3/1/0/4\n"
    assert machine.second("sinfo", "-h", "-o", "%t") == "mix\n"
    page = machine.second("scontrol", "show", "job", job)
    assert f"UserId={machine.first.name}({machine.first.uid})" in page
    assert "hush" not in page
    assert str(machine.first.home) not in page
    assert str(machine.first.home) in machine.first("scontrol", "show", "job", job)


def test_users_have_sacct_without_a_database_of_their_own(machine: Machine) -> None:
    number = machine.second("sbatch", "--parsable", "-J", "short", "--wrap", "exit 3").strip()
    row = ("sacct", "-n", "-P", "-X", "-j", number, "-o", "JobName,User,State,ExitCode")
    until(lambda: machine.second(*row) == f"short|{machine.second.name}|FAILED|3:0\n")
    assert machine.first(*row) == f"short|{machine.second.name}|FAILED|3:0\n"
    own = machine.second("sacct", "-n", "-P", "-X", "-o", "User")
    assert set(own.split()) == {machine.second.name}
    assert "Cluster" in machine.second("sreport", "cluster", "Utilization")


@pytest.mark.long
def test_root_ends_jobs_of_a_user(machine: Machine, job: str) -> None:
    done = machine.root("scancel", "-u", machine.first.name)
    assert done.returncode == 0, done
    until(lambda: machine.first("squeue", "-h", "-t", "running,pending", "-j", job) == "")
