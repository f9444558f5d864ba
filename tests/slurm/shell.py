"""Run lines of a shell with Slurm's commands of a `phalanx up`."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from pathlib import Path

from tests.cli.upstart import Up, until

ME = pwd.getpwuid(os.getuid()).pw_name


class Shell:
    """Commands in a directory of their own, with Slurm's first on the PATH."""

    def __init__(self, up: Up, folder: Path) -> None:
        self.up, self.folder = up, folder

    def call(self, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
        commands = f"{self.up.data}/bin:{os.environ['PATH']}"
        around = {**self.up.environment, "PATH": commands, "TZ": "UTC", **environment}
        words = ["/bin/sh", "-c", line]
        return subprocess.run(
            words, cwd=self.folder, env=around, capture_output=True, text=True, timeout=120, check=False
        )

    def __call__(self, line: str, **environment: str) -> str:
        done = self.call(line, **environment)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def submit(self, line: str) -> int:
        words = self(f"sbatch {line}").split()
        assert words[:3] == ["Submitted", "batch", "job"]
        return int(words[3])

    def fails(self, line: str) -> str:
        done = self.call(line)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def state(self, job: str | int, form: str = "%T") -> str:
        return self(f"squeue -h -t all -j {job} -o {shlex.quote(form)}").strip()

    def until(self, job: str | int, state: str) -> None:
        until(lambda: self.state(job) == state)

    def done(self, job: str | int) -> str:
        until(lambda: self.state(job) not in ("", "PENDING", "RUNNING", "COMPLETING"))
        return self.state(job)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()
