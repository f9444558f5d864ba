"""Which kubeconfig is read, and what is said of one that cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.client.connection import Connection
from phalanx.client.credentials import read_credentials
from phalanx.errors import PhalanxError

GOOD = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
"""


@pytest.mark.parametrize(
    "content",
    [b"", b"root:x:0:0:root:/root:/bin/bash\n", b"a: [", b"{clusters: 3}", b"\x92\xff", b"{kind: Config}"],
    ids=["empty", "text", "not YAML", "wrong types", "binary", "nothing in it"],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(PhalanxError, match=r"cannot tell which cluster to talk to: .*/odd.*--kubeconfig FILE"):
        asyncio.run(Connection.open(tmp_path / "odd"))


def test_certificates_that_are_none_are_an_error_with_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text(GOOD.replace("{server:", "{certificate-authority-data: AAAA, server:"))
    with pytest.raises(PhalanxError, match=r"certificates of the kubeconfig for https://127\.0\.0\.1:1 cannot be used"):
        asyncio.run(Connection.open(tmp_path / "odd"))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"there is no file .*/missing"):
        asyncio.run(read_credentials(tmp_path / "missing", None))


def test_kubeconfig_may_name_several_files_and_some_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good").write_text(GOOD)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{tmp_path}/good")
    assert asyncio.run(read_credentials(None, None)).host == "https://127.0.0.1:1"


def test_in_a_pod_its_service_account_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes_asyncio.config import incluster_config

    for name in ("TOKEN", "CERT"):
        (tmp_path / name).write_text("something")
        monkeypatch.setattr(incluster_config, f"SERVICE_{name}_FILENAME", str(tmp_path / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert asyncio.run(read_credentials(None, None)).host == "https://10.0.0.1:443"
