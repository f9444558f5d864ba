"""The step daemon that holds an allocation for the salloc or srun that asked for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from phalanx.slurm.jobs.steps.pods import channel

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
        "phalanx step daemon: no salloc or srun connected to this allocation within 0 s\n",
    )


@pytest.mark.slow
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


def connected(process: subprocess.Popen[str]) -> socket.socket:
    until_s = time.monotonic() + 120.0
    while True:
        try:
            return socket.create_connection((ADDRESS, channel.PORT))
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < until_s, "the daemon does not listen"
            time.sleep(0.02)
