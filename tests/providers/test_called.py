"""`providers/counted/called.py`: programs and web services of the site are called, and what may go wrong."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from phalanx.embedded.apiserver.auth.authority import ensure
from phalanx.errors import PhalanxError
from phalanx.providers.counted.called import Program, Webhook, read_token, wrong_url
from phalanx.providers.provider import ProviderError

EXAMPLES = Path(__file__).parents[2] / "examples" / "autoscaling"


def program(folder: Path, script: str, timeout_s: float = 30.0) -> Program:
    file = folder / "program"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return Program((str(file), "a b", "$(x)"), timeout_s)


def test_a_program_gets_its_arguments_without_a_shell_and_the_document(tmp_path: Path) -> None:
    script = f'printf "%s|" "$@" > {tmp_path}/argv; cat'
    assert asyncio.run(program(tmp_path, script).call("scale", "g", b'{"x": 1}')) == b'{"x": 1}'
    assert (tmp_path / "argv").read_text() == "a b|$(x)|scale|g|"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (
            "echo 'no quota in zone b' >&2; exit 3",
            "ended with status 3: no quota in zone b; try it by hand: echo '{}' | ",
        ),
        ("kill -TERM $$", "was killed by SIGTERM: it printed no error"),
        ("head -c 3000 /dev/zero", "printed more than 0 MiB"),
        ("exec 0<&-; exit 1", "ended with status 1"),
    ],
)
def test_a_program_that_fails_is_an_error(
    tmp_path: Path, script: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.providers.counted.called.MOST_BYTES", 2000)
    with pytest.raises(ProviderError) as caught:
        asyncio.run(program(tmp_path, script).call("scale", "g", b"{}"))
    assert error in str(caught.value)


@pytest.mark.slow
def test_a_program_that_is_late_is_stopped_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! > {tmp_path}/child; sleep 300"
    with pytest.raises(ProviderError, match=r"did not end within 0\.5 s and was stopped"):
        asyncio.run(program(tmp_path, script, 0.5).call("status", "g", b"{}"))
    child = int((tmp_path / "child").read_text())
    deadline_s = time.monotonic() + 60.0
    while is_alive(child):
        assert time.monotonic() < deadline_s, "its child runs on"


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ProviderError, match="the program /nowhere/x cannot be started: No such file"):
        asyncio.run(Program(("/nowhere/x",), 5.0).call("status", "g", b"{}"))


@contextmanager
def served(folder: Path, *more: str) -> Iterator[int]:
    """The example server, with a program that repeats its input. Yields its port."""
    (folder / "token").write_text("secret\n")
    (folder / "token").chmod(0o600)
    (folder / "echo").write_text('#!/bin/sh\n[ "$2" = big ] && head -c 5000000 /dev/zero\ncat\n')
    (folder / "echo").chmod(0o755)
    argv = [sys.executable, str(EXAMPLES / "webhook-provider.py"), "--port", "0", "--token-file", str(folder / "token")]
    with subprocess.Popen(
        [*argv, *more, "--", str(folder / "echo")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline().rpartition(":")[2])
        finally:
            server.kill()


@pytest.mark.slow
def test_a_web_server_is_called_with_tls_and_a_token(tmp_path: Path) -> None:
    ensure(tmp_path, "127.0.0.1")
    pair = ("--certificate", str(tmp_path / "server.crt"), "--key", str(tmp_path / "server.key"))
    with served(tmp_path, *pair) as port:
        url, authority, token = f"https://127.0.0.1:{port}/calls?zone=b", tmp_path / "ca.crt", tmp_path / "token"
        body = b'{"call": "scale", "group": "g"}'
        assert asyncio.run(Webhook(url, authority, token, 20.0).call("scale", "g", body)) == body
        for trusted, file, sent, error in (
            (None, token, body, "cannot be called: .*certificate verify failed"),
            (authority, None, body, "answered scale of group g with status 401: the token is wrong"),
            (authority, token, b"[]", "with status 500: "),
            (authority, token, b'{"call": "scale", "group": "big"}', "the response is larger than 4 MiB"),
        ):
            with pytest.raises(ProviderError, match=error):
                asyncio.run(Webhook(url, trusted, file, 20.0).call("scale", "g", sent))
    with pytest.raises(ProviderError, match="cannot be called"):
        asyncio.run(Webhook(url, authority, token, 20.0).call("scale", "g", body))


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    for mode, is_good in ((0o600, True), (0o640, True), (0o644, False), (0o660, False)):
        file.chmod(mode)
        if is_good:
            assert read_token(file) == "secret"
        else:
            with pytest.raises(PhalanxError, match=f"other users may read .*: chmod 600 {file}"):
                read_token(file)
    file.chmod(0o600)
    file.write_text("two\nlines\n")
    with pytest.raises(PhalanxError, match="contains no token"):
        read_token(file)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("https://nodes.example.com/x?y=1", ""),
        ("http://localhost:8080", ""),
        ("http://[::1]:8080/x", ""),
        ("http://127.9.9.9", ""),
        ("http://nodes.example.com", "is not encrypted"),
        ("http://10.0.0.1", "is not encrypted"),
        ("https://user:word@nodes.example.com", "put a token into tokenFile"),
        ("https://nodes.example.com:port", "is not a URL"),
        ("https://nodes.example.com/a b", "is not a URL"),
        ("ftp://nodes.example.com", "is not a URL"),
    ],
)
def test_a_url_is_encrypted_or_on_this_machine(url: str, error: str) -> None:
    assert error in wrong_url(url)
    assert bool(error) == bool(wrong_url(url))
