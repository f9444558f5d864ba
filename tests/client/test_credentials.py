"""The choice of the kubeconfig, errors of unusable ones, and credentials that expire."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from phalanx.client.access import credentials
from phalanx.client.access.credentials import Identity, read_credentials
from phalanx.client.access.kubeconfig import KubeconfigError, read_kubeconfig
from phalanx.client.connection import ApiUnknown, Connection
from phalanx.client.http import HttpAnswer
from phalanx.embedded.apiserver.auth.authority import ensure
from phalanx.errors import PhalanxError

GOOD = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
"""


def write(path: Path, user: str = "{token: secret}", cluster: str = '{server: "https://127.0.0.1:1"}') -> Path:
    path.write_text(GOOD.replace("{token: secret}", user).replace('{server: "https://127.0.0.1:1"}', cluster))
    return path


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"root:x:0:0:root:/root:/bin/bash\n", b"a: [", b"{clusters: 3}", b"\x92\xff", b"{kind: Config}"),
        *(b"[" * 200_000, b"a: " + b"[" * 200_000, b"- " * 200_000, b"[" * 2000 + b"]" * 2000),
    ],
    ids=["empty", "text", "not YAML", "wrong types", "binary", "nothing in it", "deep", "deep YAML", "lists", "whole"],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(PhalanxError, match=r"cannot tell which cluster to talk to: .*/odd.*--kubeconfig FILE"):
        asyncio.run(Connection.open(tmp_path / "odd"))


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("{auth-provider: {name: gcp}}", "auth-provider 'gcp' is not supported"),
        ("{client-certificate: a.crt}", "belong together"),
        ("{exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}}", "supported are"),
        ("{exec: {command: x, apiVersion: client.authentication.k8s.io/v1}}", "interactiveMode ''"),
        ('{token: "a\\nb"}', "is not valid in a request header"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(tmp_path: Path, user: str, said: str) -> None:
    with pytest.raises(PhalanxError, match=said):
        asyncio.run(Connection.open(write(tmp_path / "config", user)))


def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"there is no context 'prod': .* has here"):
        read_credentials(write(tmp_path / "config"), "prod")


def test_certificates_that_are_none_are_an_error_with_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text(GOOD.replace("{server:", "{certificate-authority-data: AAAA, server:"))
    with pytest.raises(PhalanxError, match=r"certificates of the kubeconfig for https://127\.0\.0\.1:1 cannot be used"):
        asyncio.run(Connection.open(tmp_path / "odd"))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"there is no file .*/missing"):
        read_credentials(tmp_path / "missing", None)


def test_of_several_files_the_first_to_say_something_wins_and_paths_are_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    write(tmp_path / "there" / "good", "{tokenFile: token}")
    (tmp_path / "first").write_text("{current-context: '', users: [{name: other, user: {}}]}")
    (tmp_path / "last").write_text(
        "{current-context: nowhere, clusters: [{name: c, cluster: {server: 'https://wrong'}}]}"
    )
    files = ("missing", "first", "there/good", "last")
    monkeypatch.setenv("KUBECONFIG", ":".join(str(tmp_path / name) for name in files))
    cluster, user = read_credentials(None, None)
    assert (cluster.server, cluster.verified) == ("https://127.0.0.1:1", True)
    assert user.token_file == tmp_path / "there" / "token"


def test_in_a_pod_its_service_account_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("something")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    cluster, user = read_credentials(None, None)
    assert cluster.server == "https://[fd00::1]:443"
    assert user.token_file == tmp_path / "token"


def test_impersonation_and_passwords_become_headers(tmp_path: Path) -> None:
    user = "{username: u, password: p, as: boss, as-groups: [a, b], as-user-extra: {scopes: [x]}}"
    cluster, who = read_kubeconfig([write(tmp_path / "config", user)], None)
    identity = Identity(cluster, who)
    asyncio.run(identity.renew())
    assert identity.lines.split("\r\n") == [
        "Impersonate-User: boss",
        "Impersonate-Group: a",
        "Impersonate-Group: b",
        "Impersonate-Extra-scopes: x",
        "Authorization: Basic dTpw",
        "",
    ]


# --- credentials that do not last ------------------------------------------------------------------------------------


class Server:
    """Takes only the words that it takes now; counts who came."""

    def __init__(self, *taken: str) -> None:
        self.taken, self.seen = list(taken), list[str]()

    async def call(self, method: str, target: str, head: str, data: bytes = b"", *, timeout_s: float) -> HttpAnswer:
        word = next((line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("Authorization")), "")
        self.seen.append(word)
        known = word in self.taken
        body = b"{}" if known else b'{"message": "Unauthorized", "reason": "Unauthorized"}'
        return HttpAnswer(200 if known else 401, {"content-type": "application/json"}, body)

    def drop_idle(self) -> None: ...


async def connected(config: Path, server: Server, clock: Callable[[], float] | None = None) -> Connection:
    connection = await Connection.open(config)
    connection._http = server  # type: ignore[assignment]  # it answers as the pool does
    if clock is not None:
        connection._identity._clock = clock  # type: ignore[union-attr]  # it has one: it was opened
    return connection


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    """A projected service account token is replaced about once an hour, long before the process ends."""

    async def scene() -> None:
        now_s = [dt.datetime.now(dt.UTC).timestamp()]
        (tmp_path / "token").write_text("old\n")
        server = Server("Bearer old")
        connection = await connected(write(tmp_path / "config", "{tokenFile: token}"), server, lambda: now_s[0])
        await connection.request("GET", "/a")
        (tmp_path / "token").write_text("new\n")
        await connection.request("GET", "/a")
        now_s[0] += 31
        server.taken = ["Bearer new"]
        await connection.request("GET", "/a")
        assert server.seen == ["Bearer old", "Bearer old", "Bearer new"]
        (tmp_path / "token").unlink()
        now_s[0] += 31
        await connection.request("GET", "/a")
        assert server.seen[-1] == "Bearer new", "a file that is being replaced is no reason to stop"

    asyncio.run(scene())


def test_what_the_server_takes_no_more_is_read_again_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "token").write_text("old")
        server = Server("Bearer new")
        connection = await connected(write(tmp_path / "config", "{tokenFile: token}"), server)
        (tmp_path / "token").write_text("new")
        await connection.request("PATCH", "/a", body={})
        assert server.seen == ["Bearer old", "Bearer new"]

    asyncio.run(scene())


def plugin(folder: Path, script: str, more: str = "", version: str = "v1") -> Path:
    program = folder / "login"
    program.write_text(f"#!/bin/sh\necho call >> {folder}/calls\n{script}\n")
    program.chmod(0o700)
    words = f"command: ./login, apiVersion: client.authentication.k8s.io/{version}, interactiveMode: Never{more}"
    return write(folder / "config", f"{{exec: {{{words}}}}}")


def credential(status: str, version: str = "v1") -> str:
    head = f'"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/{version}"'
    return f"echo '{{{head}, \"status\": {{{status}}}}}'"


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().split())


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_is_asked_once_until_its_word_expires(tmp_path: Path, version: str) -> None:
    async def scene() -> None:
        until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        status = f'"token": "t", "expirationTimestamp": "{until:%Y-%m-%dT%H:%M:%SZ}"'
        config = plugin(tmp_path, credential(status, version), version=version)
        now_s = [until.timestamp() - 3600]
        connection = await connected(config, Server("Bearer t"), lambda: now_s[0])
        await asyncio.gather(*(connection.request("GET", "/a") for _ in range(5)))
        now_s[0] += 60
        await connection.request("GET", "/a")
        assert calls(tmp_path) == 1
        now_s[0] = until.timestamp() - 10
        await asyncio.gather(*(connection.request("GET", "/a") for _ in range(5)))
        assert calls(tmp_path) > 1

    asyncio.run(scene())


def test_a_plugins_word_that_is_refused_is_asked_for_anew_once(tmp_path: Path) -> None:
    async def scene() -> None:
        config = plugin(tmp_path, credential('"token": "\'$(wc -l < ' + str(tmp_path) + "/calls)'\""))
        server = Server("Bearer 2")
        connection = await connected(config, server)
        await asyncio.gather(*(connection.request("GET", "/a") for _ in range(5)))
        assert calls(tmp_path) == 2
        server.taken = []
        with pytest.raises(Exception, match="Unauthorized"):
            await connection.request("GET", "/a")
        assert calls(tmp_path) == 3

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no >&2; exit 3", "failed with status 3: no"),
        ("echo hello", "printed no ExecCredential"),
        (credential('"token": ""'), "neither a token nor a certificate"),
        (credential('"token": "t"', "v1beta1"), "the kubeconfig requires"),
    ],
)
def test_a_plugin_that_gives_nothing_is_told_with_its_own_words(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(PhalanxError, match=said):
        asyncio.run(Connection.open(plugin(tmp_path, script)))


def test_a_plugin_that_is_not_installed_is_told_with_its_hint(tmp_path: Path) -> None:
    config = plugin(tmp_path, "", ", installHint: get it from your provider")
    (tmp_path / "login").unlink()
    with pytest.raises(PhalanxError, match=r"cannot be started(.|\n)*get it from your provider"):
        asyncio.run(Connection.open(config))


def test_a_plugin_that_must_ask_and_cannot_says_so(tmp_path: Path) -> None:
    config = plugin(tmp_path, "cat")
    config.write_text(config.read_text().replace("Never", "Always"))
    with pytest.raises(PhalanxError, match="there is no terminal"):
        asyncio.run(Connection.open(config))


def test_a_plugin_that_breaks_later_loses_a_call_and_not_the_process(tmp_path: Path) -> None:
    async def scene() -> None:
        config = plugin(tmp_path, credential('"token": "t"'))
        connection = await connected(config, Server())
        (tmp_path / "login").write_text("#!/bin/sh\nexit 1\n")
        with pytest.raises(ApiUnknown, match="nothing was sent"):
            await connection.request("GET", "/a")

    asyncio.run(scene())


# --- TLS -------------------------------------------------------------------------------------------------------------


def client_pair(pki: Path, name: str) -> tuple[str, str]:
    """A client's certificate, signed by the authority of `pki`, and its key."""
    authority = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    signer: Any = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(authority.subject, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return builder.sign(signer, hashes.SHA256()).public_bytes(pem).decode(), private.decode()


@asynccontextmanager
async def secure_server(pki: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """Its URL, and the names of the clients that connected: it asks for a certificate."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peercert") or {"subject": ((("commonName", "nobody"),),)}
        seen.append(peer["subject"][0][0][1])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}")
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pki / "ca.crt")
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
    finally:
        server.close()


async def call(config: Path) -> Any:
    async with await Connection.open(config) as connection:
        return await connection.request("GET", "/version")


def test_the_servers_certificate_is_verified_against_its_authority_and_name(tmp_path: Path) -> None:
    async def scene() -> None:
        ensure(tmp_path / "pki", "api.example")
        authority = f"certificate-authority: {tmp_path}/pki/ca.crt"
        async with secure_server(tmp_path / "pki") as (url, _):
            for words, right in (
                (authority, True),
                (f"{authority}, tls-server-name: api.example", True),
                (f"{authority}, tls-server-name: other.example", False),
                ("", False),
                ("insecure-skip-tls-verify: true", True),
            ):
                config = write(tmp_path / "config", cluster=f'{{server: "{url}", {words}}}')
                if right:
                    assert await call(config) == {}
                else:
                    with pytest.raises(ApiUnknown, match="certificate"):
                        await call(config)

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["files", "plugin"])
def test_a_client_certificate_is_shown_and_one_that_is_renewed_counts(tmp_path: Path, how: str) -> None:
    async def scene() -> None:
        ensure(tmp_path / "pki", "")
        renew = _by_files if how == "files" else _by_plugin
        user = renew(tmp_path, "first")
        async with secure_server(tmp_path / "pki") as (url, seen):
            words = f'{{server: "{url}", certificate-authority: {tmp_path}/pki/ca.crt}}'
            async with await Connection.open(write(tmp_path / "config", user, words)) as connection:
                await connection.request("GET", "/a")
                renew(tmp_path, "second")
                assert await connection._identity.renew(connection._identity.lines)  # type: ignore[union-attr]  # it has one: it was opened
                await connection.request("GET", "/a")
            assert seen == ["first", "second"]

    asyncio.run(scene())


def test_a_connection_with_another_token_shows_no_certificate_of_this_one(tmp_path: Path) -> None:
    """The API server would otherwise take the call for one of this process."""

    async def scene() -> None:
        ensure(tmp_path / "pki", "")
        user = _by_files(tmp_path, "mine")
        async with secure_server(tmp_path / "pki") as (url, seen):
            words = f'{{server: "{url}", certificate-authority: {tmp_path}/pki/ca.crt}}'
            async with await Connection.open(write(tmp_path / "config", user, words)) as connection:
                async with connection.with_token("theirs") as other:
                    await other.request("GET", "/a")
                    assert other._identity.lines == "Authorization: Bearer theirs\r\n"  # type: ignore[union-attr]  # it has one
                async with connection.acting_as("kim", ["research"]) as acting:
                    await acting.request("GET", "/a")
                    assert acting._head.endswith("impersonate-user: kim\r\nimpersonate-group: research\r\n")
                with pytest.raises(PhalanxError, match="is not valid in a request header"):
                    connection.acting_as("kim\r\nimpersonate-group: system:masters", [])
            assert seen == ["nobody", "mine"]

    asyncio.run(scene())


def _by_files(folder: Path, name: str) -> str:
    certificate, key = client_pair(folder / "pki", name)
    (folder / "client.crt").write_text(certificate)
    (folder / "client.key").write_text(key)
    return "{client-certificate: client.crt, client-key: client.key}"


def _by_plugin(folder: Path, name: str) -> str:
    certificate, key = (text.replace("\n", "\\n") for text in client_pair(folder / "pki", name))
    status = f'"clientCertificateData": "{certificate}", "clientKeyData": "{key}"'
    (folder / "answer").write_text(credential(status)[6:-1])
    (folder / "login").write_text(f"#!/bin/sh\ncat {folder}/answer\n")
    (folder / "login").chmod(stat.S_IRWXU)
    return "{exec: {command: ./login, apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable}}"


def test_a_key_lies_in_no_file_that_others_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(tmp_path / "pki", "")
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, path: Any, *args: Any) -> None:
        modes.append(stat.S_IMODE(os.stat(path).st_mode))
        load(self, path, *args)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    user = _by_files(tmp_path, "me")
    with pytest.raises(KubeconfigError):
        cluster, who = read_kubeconfig([write(tmp_path / "config", "{token: x}")], "none")
    cluster, who = read_kubeconfig([write(tmp_path / "config", user)], None)
    asyncio.run(Identity(cluster, who).renew())
    assert modes == [0o600]
