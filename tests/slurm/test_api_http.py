"""HTTP of the commands, against a server that sends exactly the given bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.cluster.api import ApiClient, RequestRefused, Unreachable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """A server that sends the given answers on each connection, one for each request, and then closes the connection.
    `heard`: the heads of the received requests."""

    def __init__(self, *connections: Sequence[bytes]) -> None:
        self.heard: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.api = ApiClient(
            KubeconfigCluster(server=f"http://127.0.0.1:{self._listener.getsockname()[1]}"),
            KubeconfigUser(token="secret"),
        )
        self._thread = threading.Thread(target=self._serve, args=(connections,), daemon=True)
        self._thread.start()

    def _serve(self, connections: Sequence[Sequence[bytes]]) -> None:
        for answers in connections:
            connection, _ = self._listener.accept()
            with connection:
                for answer in answers:
                    self.heard.append(_head(connection))
                    connection.sendall(answer)

    def over(self) -> list[str]:
        self._thread.join(timeout=120)
        self._listener.close()
        return [head.partition(" HTTP")[0] for head in self.heard]


def _head(connection: socket.socket) -> str:
    text = b""
    while not text.endswith((b"\r\n\r\n", b"}")):
        part = connection.recv(1)
        assert part, text
        text += part
    return text.decode()


def test_calls_share_a_connection_and_an_answer_may_come_in_chunks() -> None:
    chunked = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{"a":1\r\n1\r\n}\r\n0\r\n\r\n'
    server = Server([chunked, OK])
    assert server.api.get("/a", labelSelector="x in (1,2)") == {"a": 1}
    assert server.api.create("/b", {"c": "ä"}) == {}
    assert server.over() == ["GET /a?labelSelector=x+in+%281%2C2%29", "POST /b"]
    assert "Authorization: Bearer secret\r\n" in server.heard[0]
    assert "Content-Length: 10\r\n" in server.heard[1]


def test_a_read_is_sent_again_where_the_server_has_closed_a_kept_connection() -> None:
    server = Server([OK], [OK])
    assert (server.api.get("/a"), server.api.get("/b")) == ({}, {})
    assert server.over() == ["GET /a", "GET /b"]


def test_a_write_is_not() -> None:
    server = Server([OK])
    server.api.get("/a")
    server.over()
    with pytest.raises(Unreachable, match="does not answer"):
        server.api.create("/b", {})


def test_a_server_that_says_that_it_closes_is_connected_anew_for_a_write_too() -> None:
    server = Server([OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")], [OK])
    server.api.get("/a")
    server.api.delete("/b")
    assert server.over() == ["GET /a", "DELETE /b"]


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 500 No\r\n"],
)
def test_what_is_no_whole_answer_is_told(answer: bytes) -> None:
    server = Server([answer])
    with pytest.raises(Unreachable, match="does not answer"):
        server.api.get("/a")
    server.over()


def test_a_refusal_says_why() -> None:
    said = b'{"kind":"Status","message":"jobs \\"x\\" is forbidden"}'
    server = Server([b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)])
    with pytest.raises(RequestRefused, match='jobs "x" is forbidden'):
        server.api.get("/a")
    server.over()


def test_a_token_with_a_line_break_adds_no_header() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        api = ApiClient(
            KubeconfigCluster(server=f"http://127.0.0.1:{listener.getsockname()[1]}"),
            KubeconfigUser(token="a\r\nX-Remote-User: root"),
        )
        with pytest.raises(Unreachable, match="line break"):
            api.get("/a")
