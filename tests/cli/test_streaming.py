"""`cli/cluster/jobs/streaming.py`: the messages of a command in a pod, and of a forwarded port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.streaming import Exec, StreamChannel, StreamSession, forward
from phalanx.client.connection import ApiRefusal
from phalanx.errors import PhalanxError

POD: Any = {"metadata": {"name": "p", "namespace": "ns"}}
SUCCESS = {"status": "Success"}


class Socket:
    """A WebSocket that receives these messages. `sent`: the messages that were sent. `gone`: sending fails."""

    def __init__(self, *messages: Any, protocol: str = "v5.channel.k8s.io", gone: bool = False) -> None:
        self._messages, self.protocol, self._gone = messages, protocol, gone
        self.sent: list[bytes] = []
        self.failures = 0

    async def __aiter__(self) -> AsyncIterator[Any]:
        for each in self._messages:
            yield SimpleNamespace(data=each)

    async def send_bytes(self, data: bytes) -> None:
        if self._gone:
            self.failures += 1
            raise ConnectionResetError
        self.sent.append(data)


def end(status: Any) -> bytes:
    return bytes((StreamChannel.END,)) + json.dumps(status).encode()


def failure(*causes: tuple[str, str], message: str = "") -> Any:
    details = {"causes": [{"reason": reason, "message": text} for reason, text in causes]}
    return {"status": "Failure", "message": message, "details": details}


def run(*messages: Any) -> tuple[int, bytes, bytes]:
    out, err = bytearray(), bytearray()
    code = asyncio.run(StreamSession(Socket(*messages)).run(out.extend, err.extend))
    return code, bytes(out), bytes(err)


def test_output_is_passed_on_until_the_result() -> None:
    assert run(b"\1one ", b"\2oops", b"\1two", end(SUCCESS), b"\1late") == (0, b"one two", b"oops")


@pytest.mark.parametrize("odd", ["text", None, b"", b"\x09unknown"])
def test_other_messages_are_skipped(odd: Any) -> None:
    assert run(odd, b"\1a", end(SUCCESS)) == (0, b"a", b"")


def test_the_exit_code_is_in_the_causes() -> None:
    assert run(end(failure(("Other", "9"), ("ExitCode", "42"))))[0] == 42


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (failure(message="no such file"), "the command was not started: no such file"),
        (failure(("ExitCode", "many"), message="odd"), "the command was not started: odd"),
        ({"status": "Failure"}, "the command was not started: {'status': 'Failure'}"),
        ({"status": "Failure", "details": None, "message": "x"}, "the command was not started: x"),
    ],
)
def test_a_command_that_was_not_started_is_an_error(status: Any, words: str) -> None:
    with pytest.raises(PhalanxError, match=words):
        run(end(status))


def test_a_connection_that_breaks_is_not_the_end_of_the_command() -> None:
    with pytest.raises(PhalanxError, match="the connection to the pod broke; it is unknown whether"):
        run(b"\1half")


def test_input_is_sent_in_pieces_with_the_channel_in_front() -> None:
    socket = Socket()
    data = bytes(range(256)) * 600
    asyncio.run(StreamSession(socket).write(data))
    assert all(piece[0] == StreamChannel.STDIN and len(piece) <= (1 << 16) + 1 for piece in socket.sent)
    assert b"".join(piece[1:] for piece in socket.sent) == data
    asyncio.run(StreamSession(socket).write(b""))
    assert len(socket.sent) == 3


@pytest.mark.parametrize(("protocol", "sent"), [("v5.channel.k8s.io", [b"\xff\0"]), ("v4.channel.k8s.io", [])])
def test_only_version_5_has_a_message_for_the_end_of_the_input(protocol: str, sent: list[bytes]) -> None:
    socket = Socket(protocol=protocol)
    asyncio.run(StreamSession(socket).end())
    assert socket.sent == sent


def test_the_size_of_the_terminal() -> None:
    socket = Socket()
    asyncio.run(StreamSession(socket).resize(111, 33))
    assert socket.sent[0][0] == StreamChannel.SIZE
    assert json.loads(socket.sent[0][1:]) == {"Width": 111, "Height": 33}


def test_a_command_that_has_ended_takes_no_input_and_that_is_no_error() -> None:
    socket = Socket(gone=True)
    session = StreamSession(socket)
    for call in (session.write(b"x"), session.end(), session.resize(1, 1)):
        asyncio.run(call)
    assert (socket.failures, socket.sent) == (3, [])


class Server:
    """An API server that opens this socket, or refuses. `asked`: the path and the parameters."""

    def __init__(self, socket: Socket, refusal: ApiRefusal | None = None) -> None:
        self._socket, self._refusal = socket, refusal
        self.asked: tuple[str, list[tuple[str, str]], tuple[str, ...]] | None = None
        self.closed = False

    @asynccontextmanager
    async def websocket(self, path: str, params: list[tuple[str, str]], protocols: tuple[str, ...]) -> Any:
        self.asked = path, params, protocols
        if self._refusal is not None:
            raise self._refusal
        try:
            yield self._socket
        finally:
            self.closed = True


def opened(server: Any, command: Iterable[str], **how: bool) -> None:
    async def play() -> None:
        async with Exec(server, POD, "main", tuple(command), **how):
            pass

    asyncio.run(play())


def test_a_command_is_opened_as_kubectl_does() -> None:
    server = Server(Socket())
    opened(server, ["sh", "-c", "a b"], tty=False, stdin=True)
    assert server.asked is not None
    path, params, protocols = server.asked
    assert path == "/api/v1/namespaces/ns/pods/p/exec"
    assert [value for key, value in params if key == "command"] == ["sh", "-c", "a b"]
    assert dict(params) | {"command": ""} == {
        "container": "main", "stdout": "true", "stderr": "true", "tty": "false", "stdin": "true", "command": "",
    }  # fmt: skip
    assert protocols[0] == "v5.channel.k8s.io"
    assert server.closed


def test_without_a_command_the_main_program_is_attached_and_a_terminal_has_one_output() -> None:
    server = Server(Socket())
    opened(server, (), tty=True, stdin=False)
    assert server.asked is not None
    path, params, _ = server.asked
    assert path.endswith("/pods/p/attach")
    assert dict(params)["stderr"] == "false"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["sh"], 403, "no command can be started in pod ns/p: no; you may not run commands there"),
        (["sh"], 500, "no command can be started in pod ns/p: no; does its container run?"),
        ([], 403, "no terminal can be attached to pod ns/p: no; you may not attach to pods there"),
        ([], 404, "no terminal can be attached to pod ns/p: no; does its container run?"),
    ],
)
def test_a_refusal_says_what_to_look_at(command: list[str], code: int, words: str) -> None:
    with pytest.raises(PhalanxError) as caught:
        opened(Server(Socket(), ApiRefusal(code, "", "no")), command, tty=False, stdin=False)
    assert str(caught.value) == words


class Writer:
    def __init__(self) -> None:
        self.data, self.closed = b"", False

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        self.closed = True


def forwarded(socket: Socket, typed: bytes = b"") -> tuple[str, Writer, Server]:
    writer, server = Writer(), Server(socket)

    async def play() -> str:
        reader = asyncio.StreamReader()
        reader.feed_data(typed)
        return await forward(server, POD, 80, reader, writer)  # type: ignore[arg-type]  # doubles

    return asyncio.run(play()), writer, server


def test_the_first_message_of_each_channel_is_the_port() -> None:
    error, writer, server = forwarded(Socket(b"\0P\0", b"\1P\0", b"\0data", "text", b"\0 more"), b"typed")
    assert (error, writer.data, writer.closed) == ("", b"data more", True)
    assert server.asked is not None
    assert (server.asked[0], server.asked[1]) == ("/api/v1/namespaces/ns/pods/p/portforward", [("ports", "80")])
    assert server.closed


def test_an_error_of_the_port_is_returned() -> None:
    error, writer, _ = forwarded(Socket(b"\0P\0", b"\1P\0", b"\1nobody listens \xff", b"\0late"))
    assert error == "nobody listens \ufffd"
    assert (writer.data, writer.closed) == (b"", True)


def test_what_the_local_program_writes_reaches_the_pod() -> None:
    class Slow(Socket):
        """It receives a message only after the first piece was sent."""

        def __init__(self) -> None:
            super().__init__()
            self._was_sent = asyncio.Event()

        async def __aiter__(self) -> AsyncIterator[Any]:
            await self._was_sent.wait()
            yield SimpleNamespace(data=b"\0P\0")

        async def send_bytes(self, data: bytes) -> None:
            await super().send_bytes(data)
            self._was_sent.set()

    socket = Slow()
    forwarded(socket, b"typed")
    assert socket.sent == [b"\0typed"]
