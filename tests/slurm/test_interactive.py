"""An allocation is held by the salloc or srun that asked for it: by its step daemon's own program.

No clock decides here: the daemon begins to wait for its holder when the test lets it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import cast

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.steps.pods import channel
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import interactive

# No pod's, and no other test's that runs at the same time: the port is always the same.
ADDRESS, KEY = f"127.200.{os.getpid() >> 8 & 255}.{os.getpid() & 255}", "the job's key"
WITHIN_S = 0.2
PROGRAM = f"""
import sys
from phalanx.slurm.jobs.steps.pods import stepd
waits = stepd._Daemon.expect_holder
stepd._Daemon.expect_holder = lambda self, within_s: (sys.stdin.readline(), waits(self, within_s))
stepd.HELD_WITHIN_S = {WITHIN_S}
sys.exit(stepd.main(["hold"]))
"""


def daemon(**around: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PHALANX_STEP_KEY": KEY, "PHALANX_POD_IP": ADDRESS, "PHALANX_HELD": "1", **around}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdin=pipe, stderr=pipe, text=True)


def test_it_ends_where_nobody_comes_to_hold_it() -> None:
    """The requesting command was killed while the job waited."""
    process = daemon()
    said = process.communicate("now\n", timeout=120)[1]
    assert (process.returncode, said) == (
        0,
        "phalanx step daemon: nobody came to hold this allocation within 0 s\n",
    )


@pytest.mark.parametrize(
    ("around", "holds"),
    [({}, True), ({"PHALANX_HELD": ""}, False), ({"JOB_COMPLETION_INDEX": "1"}, False)],
    ids=["held", "salloc --no-shell", "the pods after the first"],
)
def test_it_stays_until_it_is_told_to_end(around: dict[str, str], *, holds: bool) -> None:
    process = daemon(**around)
    assert process.stdin is not None
    with connected(process) as connection:
        link = channel.Channel(connection, KEY, server=False)
        if holds:
            link.send(channel.HOLD)
            link.receive()
        process.stdin.write("now\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=5 * WITHIN_S)
        link.send(channel.FINISH, b"3")
        assert process.wait(timeout=120) == 3


@pytest.mark.parametrize("at", ["_wait", "allocation"])
def test_what_cannot_be_had_is_given_back(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """For example a job whose pods run no steps, which would never end."""
    ended = []

    def fails(*_: object, **__: object) -> None:
        raise PhalanxError("no")

    monkeypatch.setattr(interactive.Api, "open", lambda: None)
    monkeypatch.setattr(interactive.site, "load", lambda api: Site())
    monkeypatch.setattr(interactive, "hardware", lambda *_: None)
    monkeypatch.setattr(interactive, "request", lambda *_: type("Asked", (), {"ask": type("Ask", (), {"hold": ""})()}))
    monkeypatch.setattr(interactive, "submit", lambda *_: [7])
    monkeypatch.setattr(interactive, "_wait", lambda *_: None)
    monkeypatch.setattr(interactive, at, fails)
    monkeypatch.setattr(interactive, "cancel", lambda api, number: ended.append(number))
    with pytest.raises(PhalanxError, match="no"):
        interactive.grant("salloc", "alloc", [{}], "interactive", "salloc")
    assert ended == [7]


@pytest.mark.parametrize(
    ("name", "quiet", "told"),
    [
        (
            "srun",
            False,
            "srun: job 7 queued and waiting for resources\nsrun: Job has been cancelled\n"
            "srun: error: Unable to allocate resources: Job/step already completing or completed",
        ),
        ("srun", True, "srun: error: Unable to allocate resources: Job/step already completing or completed"),
        (
            "salloc",
            False,
            "salloc: Pending job allocation 7\nsalloc: job 7 queued and waiting for resources\n"
            "salloc: Job allocation 7 has been revoked.\nsalloc: Job has been cancelled\n"
            "salloc: error: Job submit/allocate failed: Job/step already completing or completed",
        ),
    ],
)
@pytest.mark.parametrize("missed", [True, False], ids=["missed its deadline", "was cancelled"])
def test_a_job_that_ends_before_it_starts_is_no_allocation(
    monkeypatch: pytest.MonkeyPatch, *, name: str, quiet: bool, told: str, missed: bool
) -> None:
    ask = Ask(name="j", user="a", uid=1, gid=1, group="g", account="l", partition="b")
    found = [Job(number=7, ask=ask, state="DEADLINE")] if missed else []
    monkeypatch.setattr(interactive, "jobs", lambda api, numbers: found)
    with pytest.raises(Usage) as error:
        interactive._wait(cast(Api, None), 7, name, quiet, {})
    assert error.value.text == told


def connected(process: subprocess.Popen[str]) -> socket.socket:
    until_s = time.monotonic() + 120.0
    while True:
        try:
            return socket.create_connection((ADDRESS, channel.PORT))
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < until_s, "the daemon does not listen"
            time.sleep(0.02)
