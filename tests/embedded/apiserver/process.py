"""An API server as a process: started, waited for, asked, killed."""

from __future__ import annotations

import contextlib
import json
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: Any
    headers: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class ServerProcess:
    """`url`, `token` and `kubeconfig` are all that a client needs; `ask` is a client for tests."""

    data: Path
    url: str
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, data: Path, port: int = 0, *options: str) -> Self:
        """Start one and wait until it says that it is ready."""
        command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(data), "--port", str(port)]
        command += options
        data.mkdir(parents=True, exist_ok=True)
        log = data / "server.log"  # not a pipe: no process would read it, and a full pipe blocks the server
        with log.open("a") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            process.kill()
            raise AssertionError(f"the server did not start: {log.read_text()}")
        return cls(data=data, url=line.split()[1], process=process)

    @classmethod
    @contextlib.contextmanager
    def started(cls, data: Path, port: int = 0, *options: str) -> Iterator[Self]:
        server = cls.start(data, port, *options)
        try:
            yield server
        finally:
            server.stop()

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def ca(self) -> Path:
        return self.data / "pki" / "ca.crt"

    @property
    def token(self) -> str:
        return self.data.joinpath("tokens.csv").read_text().split(",")[0]

    def stop(self) -> int:
        """Ask it to end, as Ctrl-C does; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            self.kill()
        return self.process.returncode

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.communicate()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        token: str | None = None,
        accept: str = "application/json",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Answer:
        """One request. `token` "" sends none; bodies that are text go as they are."""
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Accept", accept)
        for name, value in headers:
            request.add_header(name, value)
        if data is not None:
            request.add_header("Content-Type", media)
        if token != "":
            request.add_header("Authorization", f"Bearer {token or self.token}")
        context = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(request, context=context, timeout=120) as response:
                return _answer(response.status, response.read(), response.headers)
        except HTTPError as error:
            return _answer(error.code, error.read(), error.headers)

    def make_namespace(self, name: str) -> str:
        """The path of a new namespace's core resources."""
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return f"/api/v1/namespaces/{name}"


def _answer(code: int, raw: bytes, headers: Any) -> Answer:
    text = raw.decode()
    is_json = "json" in headers.get("Content-Type", "") and text
    return Answer(code, json.loads(text) if is_json and "\n" not in text.strip() else text, dict(headers))
