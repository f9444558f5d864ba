"""The port, over real HTTPS: answers, refusals, and a change of the certificate while it serves."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from phalanx.client.http import Http, HttpAnswer
from phalanx.embedded.apiserver.auth.authority import Pair, make_authority, make_server
from phalanx.errors import PhalanxError
from phalanx.extensions.webhook.serving import LIMITS, Files, ReviewAnswerer, serving, show, tls_context
from phalanx.metrics.admissions import Admissions
from tests.extensions.webhook.reviews import QUEUE, Case, patched, review

ANY = review(Case(name="any").job())
NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
BODY_LIMIT_BYTES = LIMITS.body_bytes
AUTHORITY = make_authority("test", NOW, 10 * DAY)


def certificate() -> Pair:
    return make_server(AUTHORITY, "webhook", ["localhost", "127.0.0.1"], NOW, DAY)


class Client:
    def __init__(self, port: int, authority: Pair = AUTHORITY) -> None:
        tls = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        self._http = Http(f"https://127.0.0.1:{port}", tls=tls, limit=8)

    async def ask(self, body: bytes, path: str = "/admit", method: str = "POST") -> HttpAnswer:
        head = "content-type: application/json\r\n"
        return await self._http.call(method, path, head, body, timeout_s=60)

    def close(self) -> None:
        self._http.close()


@asynccontextmanager
async def served(admissions: Admissions | None = None) -> AsyncIterator[tuple[Client, ssl.SSLContext, int]]:
    context = tls_context()
    show(context, certificate())
    async with serving(("127.0.0.1", 0), context, ReviewAnswerer(admissions or Admissions())) as port:
        client = Client(port)
        try:
            yield client, context, port
        finally:
            client.close()


def posted(asked: Any) -> bytes:
    return json.dumps(asked).encode()


def counted(admissions: Admissions) -> dict[tuple[str, ...], float]:
    """Return labels -> the count; requests that were no reviews have no labels."""
    samples = [sample for family in admissions.collect() for sample in family.samples]
    return {tuple(one.labels.values()): one.value for one in samples if one.name.startswith("phalanx_admissions")}


def test_a_review_is_answered_and_counted() -> None:
    admissions = Admissions()

    async def scene() -> None:
        async with served(admissions) as (client, _, _):
            job = Case(name="queued", labels=QUEUE).job()
            answer = await client.ask(posted(review(job)))
            assert answer.status == 200
            assert answer.headers["content-type"] == "application/json"
            assert patched(job, json.loads(answer.body))["spec"]["suspend"] is True
            await client.ask(posted(review(Case(name="not-ours").job())))
            await client.ask(b"{}")

    asyncio.run(scene())
    counted = {
        tuple(s.labels.values()): s.value for m in admissions.collect() for s in m.samples if "admissions" in s[0]
    }
    assert counted == {("jobs", "CREATE", "changed"): 1, ("jobs", "CREATE", "unchanged"): 1, (): 1}


def test_labels_of_metrics_are_not_what_anybody_sends() -> None:
    admissions = Admissions()

    async def scene() -> None:
        async with served(admissions) as (client, _, _):
            for number in range(20):
                await client.ask(posted(review({"metadata": {}}, plural=f"things{number}")))

    asyncio.run(scene())
    labels = {
        tuple(s.labels.values()) for m in admissions.collect() for s in m.samples if s.name.endswith("sions_total")
    }
    assert labels == {("other", "other", "unchanged")}


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "words"),
    [
        ("POST", "/admit", b"hello", 400, "not an AdmissionReview"),
        ("POST", "/admit", b"", 400, "not an AdmissionReview"),
        ("POST", "/admit", b"\xff\xfe", 400, "not an AdmissionReview"),
        ("POST", "/admit", b"[" * 100_000, 400, "not an AdmissionReview"),
        ("POST", "/admit", posted(review({})), 400, "no metadata"),
        ("POST", "/admit", posted({"kind": "Pod", "apiVersion": "v1"}), 400, "not an AdmissionReview"),
        ("POST", "/admit", b" " * (BODY_LIMIT_BYTES + 1), 413, "too large"),
        ("POST", "/", b"{}", 404, "/admit"),
        ("POST", "/admit/../admit", b"{}", 404, "/admit"),
        ("GET", "/admit", b"", 405, "with POST"),
        ("GET", "/healthz", b"", 200, "ok"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_review_is_refused(method: str, path: str, body: bytes, code: int, words: str) -> None:
    async def scene() -> HttpAnswer:
        async with served() as (client, _, _):
            answer = await client.ask(body, path, method)
            again = await client.ask(posted(review(Case(name="queued", labels=QUEUE).job())))
            assert again.status == 200, "it serves on"
            return answer

    answer = asyncio.run(scene())
    assert answer.status == code
    assert words in answer.body.decode()


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["a"]},
        {"labels": "text"},
        {"labels": 5},
        {"annotations": []},
        {"annotations": {"phalanx.dev/user": {}}},
    ],
    ids=str,
)
def test_what_no_api_server_sends_stops_nobody(change: Any) -> None:
    """After any request, the next one is answered correctly."""

    async def scene() -> None:
        async with served() as (client, _, _):
            job = Case(name="queued", labels=QUEUE).job()
            odd = {**job, "metadata": {**job["metadata"], **change}}
            answer = await client.ask(posted(review(odd)))
            assert answer.status in {200, 500}
            assert (await client.ask(posted(review(job)))).status == 200

    asyncio.run(scene())


def test_plain_http_and_silence_get_nothing() -> None:
    async def scene() -> None:
        async with served() as (client, _, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /admit HTTP/1.1\r\n\r\n")
            assert b"200" not in await reader.read()
            writer.close()
            silent = socket.create_connection(("127.0.0.1", port))
            assert (await client.ask(posted(ANY))).status == 200
            silent.close()

    asyncio.run(scene())


@pytest.mark.slow
def test_bodies_that_never_end_cost_no_more_than_is_set_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with many connections and nearly the largest bodies is disconnected; others are answered."""
    limits = replace(LIMITS, held_bytes=4 * BODY_LIMIT_BYTES)
    monkeypatch.setattr("phalanx.extensions.webhook.serving.LIMITS", limits)
    head = f"POST /admit HTTP/1.1\r\nhost: x\r\ncontent-length: {BODY_LIMIT_BYTES}\r\n\r\n".encode()

    async def greedy(port: int) -> bool:
        tls = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        try:
            writer.write(head + b" " * (BODY_LIMIT_BYTES - 1))
            await writer.drain()
            await reader.read()
        except OSError:
            pass
        finally:
            writer.transport.abort()
        return True

    async def scene() -> None:
        async with served() as (client, _, port):
            tasks = [asyncio.ensure_future(greedy(port)) for _ in range(6)]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert done, "somebody was cut off"
            assert (await client.ask(posted(ANY))).status == 200
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    asyncio.run(scene())


def test_the_certificate_changes_while_connections_are_open() -> None:
    async def scene() -> None:
        other = make_authority("other", NOW, 10 * DAY)
        async with served() as (client, context, port):
            assert (await client.ask(posted(ANY))).status == 200
            show(context, make_server(other, "webhook", ["127.0.0.1"], NOW, DAY))
            assert (await client.ask(posted(ANY))).status == 200, "a connection that is open stays"
            client.close()
            with pytest.raises(OSError, match="verify failed"):
                await Client(port).ask(posted(ANY))
            trusting = Client(port, other)
            assert (await trusting.ask(posted(ANY))).status == 200
            trusting.close()

    asyncio.run(scene())


def test_without_a_certificate_nobody_is_answered() -> None:
    async def scene() -> None:
        async with serving(("127.0.0.1", 0), tls_context(), ReviewAnswerer(Admissions())) as port:
            with pytest.raises(OSError):  # noqa: PT011 (how the handshake fails is the libraries' business)
                await Client(port).ask(posted(ANY))

    asyncio.run(scene())


def test_a_port_that_is_taken_is_told() -> None:
    async def scene() -> None:
        async with served() as (_, _, port):
            with pytest.raises(PhalanxError, match=f"cannot listen on 127.0.0.1 port {port}"):
                async with serving(("127.0.0.1", port), tls_context(), ReviewAnswerer(Admissions())):
                    pass

    asyncio.run(scene())


# --- files of somebody else ------------------------------------------------------------------------------------------


def written(folder: Path, pair: Pair) -> tuple[Path, Path]:
    """As the kubelet does with a Secret that is mounted: new files, moved into place."""
    found = (folder / "tls.crt", folder / "tls.key")
    for path, text in zip(found, (pair.certificate_pem, pair.key_pem), strict=True):
        draft = path.with_suffix(".new")
        draft.write_bytes(text)
        os.replace(draft, path)
    return found


def shown(context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a client is shown now."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    client = asking.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def test_files_are_read_again_when_they_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second, context = certificate(), certificate(), tls_context()
    files = Files(context, *written(tmp_path, first))
    files.look()
    assert shown(context) == first.certificate.serial_number
    (tmp_path / "tls.crt").write_bytes(b"half")
    files.look()
    assert shown(context) == first.certificate.serial_number, "what was served stays"
    assert "was not renewed" in caplog.text
    written(tmp_path, second)
    files.look()
    assert shown(context) == second.certificate.serial_number


def test_files_that_cannot_be_read_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="--tls-cert"):
        Files(tls_context(), tmp_path / "none.crt", tmp_path / "none.key")
    cert, _ = written(tmp_path, certificate())
    other = tmp_path / "other"
    other.mkdir()
    _, key = written(other, certificate())
    with pytest.raises(PhalanxError, match="Name a certificate and its key"):
        Files(tls_context(), cert, key)
