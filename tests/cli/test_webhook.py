"""`phalanx webhook` on the command line: certificates from another program, and error messages."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import ssl
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from phalanx.cli.commands.in_cluster.webhook import webhook
from phalanx.embedded.apiserver.auth.authority import make_authority, make_server
from phalanx.errors import PhalanxError
from tests.cli.upstart import PHALANX
from tests.extensions.webhook.reviews import QUEUE, Case, patched, review


def test_half_a_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="name both --tls-cert and --tls-key, or neither"):
        webhook(address="127.0.0.1:0", tls_cert=tmp_path / "tls.crt")


@pytest.mark.parametrize("address", ["8443", "127.0.0.1", "127.0.0.1:port", ":8443", "127.0.0.1:99999"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(PhalanxError, match="is not an address to listen on"):
        webhook(address=address)


def test_certificates_that_cannot_be_read_are_told_before_anything_is_served(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="cannot serve with the certificate"):
        webhook(address="127.0.0.1:0", tls_cert=tmp_path / "none.crt", tls_key=tmp_path / "none.key")


@pytest.mark.slow
def test_with_certificates_from_files_it_needs_no_cluster(tmp_path: Path) -> None:
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    authority = make_authority("somebody", now, day)
    pair = make_server(authority, "webhook", ["127.0.0.1"], now, day)
    (tmp_path / "tls.crt").write_bytes(pair.certificate_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    files = ("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key"))
    command = (*PHALANX, "webhook", "--address", "127.0.0.1:0", *files)
    nobody = {"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path), "PATH": ""}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(nobody)) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "answering at" in line)
        job = Case(name="train", labels=QUEUE).job()
        found = patched(job, asked(said.split(";")[0].split()[-1], review(job), authority.certificate_pem.decode()))
        assert found["spec"]["suspend"] is True
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0


def environment(change: dict[str, str]) -> dict[str, str]:
    return {**{key: text for key, text in os.environ.items() if key == "PYTHONPATH"}, **change}


def asked(url: str, body: Any, bundle: str) -> Any:
    request = Request(url, data=json.dumps(body).encode(), headers={"content-type": "application/json"})
    with urlopen(request, context=ssl.create_default_context(cadata=bundle), timeout=120) as answer:
        return json.loads(answer.read())
