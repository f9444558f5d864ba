"""`slurm/commands/resident/service.py`: the turns of the service, its socket, and its limits, without child processes.

`test_resident_caller.py` calls a whole service."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.commands.resident import caller, service
from phalanx.slurm.commands.resident.service import Service


class Machine:
    """A service whose commands are numbers in place of processes. `killed`: the processes that the service killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._listening = service._listening(folder / "socket")
        self.path = folder / "socket"
        self.service = Service(self._listening.__enter__(), (), lambda name: 0)
        self.killed: list[tuple[int, int]] = []
        self.ended: list[tuple[int, int]] = []
        self._next = 1000
        self.reading, self.writing = os.pipe2(os.O_NONBLOCK)
        self.service._poll.register(self.reading, select.POLLIN)
        self.service._poll.register(self.service._listener, select.POLLIN)
        monkeypatch.setattr(service.os, "fork", self._fork)
        monkeypatch.setattr(service.os, "kill", lambda pid, number: self.killed.append((pid, number)))
        monkeypatch.setattr(service, "_ended", self._take_ended)

    def _fork(self) -> int:
        self._next += 1
        return self._next

    def _take_ended(self) -> Iterator[tuple[int, int]]:
        ended, self.ended = self.ended, []
        yield from ended

    def end(self, pid: int, status: int = 0) -> None:
        """The command of this process ends, which sends SIGCHLD."""
        self.ended.append((pid, status))
        os.write(self.writing, b"c")

    def call(self) -> socket.socket:
        """Connect; the call is accepted in a later turn."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        return connection

    def turn(self) -> None:
        self.service._turn(self.reading, 0)

    @property
    def pids(self) -> list[int]:
        return [call.pid for call in self.service._calls.values()]

    def close(self) -> None:
        for call in self.service._calls.values():
            call.connection.close()
        self._listening.__exit__(None, None, None)
        self.service._listener.close()
        for handle in (self.reading, self.writing):
            os.close(handle)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    found = Machine(monkeypatch, tmp_path)
    yield found
    found.close()


def test_a_caller_gets_the_status_of_its_own_command(machine: Machine) -> None:
    first, second = machine.call(), machine.call()
    machine.turn()
    machine.turn()
    assert machine.pids == [1001, 1002]
    machine.end(1002, 7 << 8)
    machine.turn()
    assert second.recv(9) == caller.STATUS + (7 << 8).to_bytes(4, "big")
    assert second.recv(1) == b""
    first.setblocking(False)
    with pytest.raises(BlockingIOError):
        first.recv(1)
    assert machine.pids == [1001]


def test_the_command_of_a_caller_that_has_ended_is_killed_once(machine: Machine) -> None:
    machine.call().close()
    machine.turn()
    for _ in range(2):
        machine.turn()
    assert machine.killed == [(1001, signal.SIGKILL)]
    machine.end(1001, signal.SIGKILL)
    machine.turn()
    assert machine.pids == []


def test_a_new_call_is_not_killed_for_an_old_one(machine: Machine) -> None:
    """In one turn, a command ends together with its caller, and another caller connects. The connection of the new call
    has the number of the closed one."""
    old = machine.call()
    machine.turn()
    old.close()
    machine.end(1001)
    new = machine.call()
    machine.turn()
    machine.turn()
    assert machine.pids == [1002]
    assert (1002, signal.SIGKILL) not in machine.killed
    machine.end(1002)
    machine.turn()
    assert new.recv(9) == caller.STATUS + bytes(4)


def test_calls_of_one_user_are_limited_and_counted_down(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_CALLS_OF_A_USER", 1)
    connection, declined = machine.call(), machine.call()
    machine.turn()
    machine.turn()
    assert machine.pids == [1001]
    assert declined.recv(1) == b""  # the caller runs the command itself
    machine.end(1001)
    machine.turn()
    assert connection.recv(1) == caller.STATUS
    assert not machine.service._of_user
    connection = machine.call()
    machine.turn()
    assert machine.pids == [1002]


def test_calls_of_all_users_are_limited(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_CALLS", 1)
    connections = [machine.call() for _ in range(2)]
    for _ in connections:
        machine.turn()
    assert machine.pids == [1001]
    assert connections[1].recv(1) == b""


def test_a_fork_that_fails_declines_the_call(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(service.os, "fork", fork)
    connection = machine.call()
    machine.turn()
    assert connection.recv(1) == b""
    assert not machine.service._of_user


def test_a_service_that_stops_waits_without_spinning(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no new call, waits for the running one, and ends its command after a while."""
    waiting = machine.call()
    machine.turn()
    machine.service._poll.unregister(machine.reading)
    machine.service._poll.unregister(machine.service._listener)
    monkeypatch.setattr(service, "_waking", lambda: machine.reading)
    monkeypatch.setattr(service.signal, "signal", lambda *_: None)
    monkeypatch.setattr(service, "_FAREWELL_S", 0.02)
    turns: list[int] = []
    turn = machine.service._turn

    def counted(wake: int, patience_ms: int) -> None:
        turns.append(patience_ms)
        turn(wake, patience_ms)

    monkeypatch.setattr(machine.service, "_turn", counted)
    machine.service._stop()
    machine.service.serve()
    assert len(turns) <= 2
    assert machine.killed == [(1001, signal.SIGTERM)]
    with pytest.raises(ConnectionRefusedError):
        machine.call()
    waiting.close()


@pytest.mark.parametrize(("user", "mode"), [(0, 0o666), (1000, 0o600)])
def test_the_socket_is_for_all_users_only_if_root_serves(
    user: int, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.os, "geteuid", lambda: user)
    path = tmp_path / "run" / "socket"
    with service._listening(path):
        assert path.stat().st_mode & 0o777 == mode
    assert not path.exists()


def test_a_socket_that_is_left_over_is_replaced_and_another_file_is_not(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "socket"))
    with service._listening(tmp_path / "socket"):
        pass
    (tmp_path / "file").write_text("precious")
    with pytest.raises(PhalanxError, match=r"cannot listen at .*file: .*--socket FILE"):
        service._listening(tmp_path / "file").__enter__()
    assert (tmp_path / "file").read_text() == "precious"


def test_a_socket_of_a_later_service_stays(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with service._listening(path):
        path.unlink()
        other: Any = socket.socket(socket.AF_UNIX)
        other.bind(str(path))
    assert path.is_socket()
    other.close()


def test_a_second_service_does_not_take_the_socket_of_a_first(tmp_path: Path) -> None:
    with service._listening(tmp_path / "socket"):
        with pytest.raises(PhalanxError, match="another service listens at it"):
            service._listening(tmp_path / "socket").__enter__()
        assert (tmp_path / "socket").is_socket()
