"""The server's authority and certificate, and files that hold secrets."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from phalanx.embedded.apiserver.auth import authority
from phalanx.embedded.apiserver.auth.authority import (
    ensure,
    make_authority,
    make_server,
    read_pair,
    server_names,
    write_kubeconfig,
    write_private,
)
from phalanx.errors import PhalanxError

NOW, DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.timedelta(days=1)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def is_signed(pki: Path) -> bool:
    try:
        certificate(pki / "server.crt").verify_directly_issued_by(certificate(pki / "ca.crt"))
    except (InvalidSignature, ValueError):
        return False
    return True


def test_a_server_is_signed_and_never_outlasts_its_authority() -> None:
    root = make_authority("root", NOW, 10 * DAY)
    made = make_server(root, "s", ["localhost", "::1"], NOW, 365 * DAY).certificate
    made.verify_directly_issued_by(root.certificate)
    assert made.not_valid_after_utc == NOW + 10 * DAY
    assert made.not_valid_before_utc == NOW - dt.timedelta(hours=1)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["::1"]


def test_a_key_belongs_to_its_certificate() -> None:
    one, other = make_authority("a", NOW, DAY), make_authority("b", NOW, DAY)
    assert read_pair(one.certificate_pem, one.key_pem).certificate == one.certificate
    with pytest.raises(ValueError, match="not that of the certificate"):
        read_pair(one.certificate_pem, other.key_pem)


def test_certificates_are_made_once(tmp_path: Path) -> None:
    ensure(tmp_path / "pki", "127.0.0.1")
    files = {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()}
    assert set(files) == {"ca.crt", "ca.key", "server.crt", "server.key"}
    ensure(tmp_path / "pki", "127.0.0.1")
    assert {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()} == files
    assert all((tmp_path / "pki" / name).stat().st_mode & 0o777 == 0o600 for name in files)


def test_another_address_or_an_end_that_is_near_needs_another_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(tmp_path, "127.0.0.1")
    authority_of_all = (tmp_path / "ca.crt").read_bytes()
    serials = [certificate(tmp_path / "server.crt").serial_number]
    ensure(tmp_path, "192.0.2.7")
    serials.append(certificate(tmp_path / "server.crt").serial_number)
    monkeypatch.setattr(authority, "_now", lambda: dt.datetime.now(dt.UTC) + 340 * DAY)
    ensure(tmp_path, "192.0.2.7")
    serials.append(certificate(tmp_path / "server.crt").serial_number)
    assert len(set(serials)) == 3
    assert (tmp_path / "ca.crt").read_bytes() == authority_of_all


def test_another_authority_signs_the_server_anew(tmp_path: Path) -> None:
    """Otherwise the kubeconfig trusts an authority that did not sign the server."""
    ensure(tmp_path, "127.0.0.1")
    (tmp_path / "ca.key").unlink()
    ensure(tmp_path, "127.0.0.1")
    assert is_signed(tmp_path)


@pytest.mark.parametrize("name", ["server.crt", "ca.crt"])
def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path, name: str) -> None:
    ensure(tmp_path, "127.0.0.1")
    (tmp_path / name).write_text("-----BEGIN")
    (tmp_path / "server.key").unlink()
    with pytest.raises(PhalanxError, match="They are damaged: restore a backup"):
        ensure(tmp_path, "127.0.0.1")


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PhalanxError, match=r"Nothing was started\. Make the directory readable"):
        ensure(tmp_path / "file" / "pki", "")


def test_names_of_all_addresses_are_no_names() -> None:
    assert server_names("0.0.0.0")[:3] == ["localhost", "127.0.0.1", "::1"]
    assert "0.0.0.0" not in server_names("0.0.0.0")
    assert server_names("192.0.2.7")[-1] == "192.0.2.7"


def test_a_secret_file_is_its_owners_alone_and_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    (tmp_path / "secret.new").write_text("left over")
    old = os.umask(0)
    try:
        write_private(path, "one")
        write_private(path, b"two")
    finally:
        os.umask(old)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_a_kubeconfig_needs_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("authority")
    write_kubeconfig(
        tmp_path / "config", server="https://h:1", ca_certificate=tmp_path / "ca.crt", user="ada", token="t"
    )
    found = json.loads((tmp_path / "config").read_text())
    assert found["clusters"][0]["cluster"] == {"server": "https://h:1", "certificate-authority-data": "YXV0aG9yaXR5"}
    assert found["contexts"][0]["context"] == {"cluster": "phalanx", "user": "ada", "namespace": "default"}
    assert found["users"] == [{"name": "ada", "user": {"token": "t"}}]
