"""The remote shell that mpirun calls in pods without sshd: commands for the pod itself run in this pod."""

from __future__ import annotations

import socket

import pytest

from phalanx.embedded.controllers.operators.mpi_job import remote_shell


def test_a_pod_whose_own_name_comes_late_runs_the_command_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod has no server for remote commands, so a connection to itself would never be accepted."""
    answers = iter((None, None, "127.9.0.7"))

    def look_up(host: str) -> str:
        if (address := next(answers)) is None:
            raise socket.gaierror(-2, "Name or service not known")
        return address

    def refuse(where: tuple[str, int]) -> socket.socket:
        raise ConnectionRefusedError(f"nobody listens on {where}")

    monkeypatch.setenv("MPI_RSH_ADDRESS", "127.9.0.7")
    monkeypatch.setattr(remote_shell.socket, "gethostbyname", look_up)
    monkeypatch.setattr(remote_shell.socket, "create_connection", refuse)
    monkeypatch.setattr(remote_shell.time, "sleep", lambda _: None)
    assert remote_shell.call("ranks-launcher-0-0", ["exit", "7"]) == 7
