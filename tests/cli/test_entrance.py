"""`cli/views/page/entrance.py`: the options and the certificate of a page with several viewers."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from phalanx.cli.views.page.entrance import Entrance
from phalanx.embedded.apiserver.auth.authority import make_authority, make_server
from phalanx.errors import PhalanxError

NOW = dt.datetime.now(dt.UTC)


@pytest.mark.parametrize(
    "options",
    [
        {"address": "0.0.0.0:8443"},
        {"host": ("page.example",)},
        {"proxy_name": ("proxy",)},
        {"proxy_ca": Path("ca")},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_for_several_viewers_need_sign_in(options: dict[str, Any]) -> None:
    with pytest.raises(PhalanxError, match=r"need --sign-in: .*Nothing was started"):
        Entrance(**options).public()


ADDRESS: dict[str, Any] = {"sign_in": True, "address": "0.0.0.0:8443"}
PAIR: dict[str, Any] = {"tls_cert": Path("cert"), "tls_key": Path("key")}
PROXY: dict[str, Any] = {"proxy_ca": Path("ca"), "proxy_name": ("proxy",)}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (ADDRESS | {"tls_cert": Path("cert")}, "--tls-cert and --tls-key"),
        (ADDRESS | {"tls_key": Path("key")}, "--tls-cert and --tls-key"),
        ({"sign_in": True} | PAIR, "--tls-cert and --tls-key"),
        (PAIR, "--tls-cert and --tls-key"),
        (ADDRESS | {"proxy_ca": Path("ca")}, "--proxy-ca and --proxy-name"),
        (ADDRESS | {"proxy_name": ("proxy",)}, "--proxy-ca and --proxy-name"),
        ({"sign_in": True} | PROXY, "--proxy-ca and --proxy-name"),
    ],
)
def test_options_that_need_each_other_and_an_address(options: dict[str, Any], names: str) -> None:
    with pytest.raises(PhalanxError, match=rf"{names} need each other and --address\. Nothing was started"):
        Entrance(**options).public()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, None),
        ({"sign_in": True}, None),
        ({"sign_in": True, "host": ("page.example",)}, None),
        (ADDRESS, ("0.0.0.0", 8443)),
        ({"sign_in": True, "address": "[::1]:1"} | PAIR | PROXY, ("::1", 1)),
    ],
)
def test_the_address_of_the_page(options: dict[str, Any], found: tuple[str, int] | None) -> None:
    assert Entrance(**options).public() == found


def names_in(context: ssl.SSLContext) -> tuple[list[str], ssl.SSLObject]:
    """Return the names in the certificate that a server with this context shows, and the server's side."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        context.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = x509.load_der_x509_certificate(sides[0].getpeercert(binary_form=True))
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName), sides[1]


def test_a_self_made_certificate_has_the_names_of_the_page() -> None:
    context, files = Entrance(**ADDRESS, host=("page.example", "other.example")).tls()
    assert files is None
    assert {"localhost", "page.example", "other.example"} <= set(names_in(context)[0])
    assert context.verify_mode == ssl.CERT_NONE


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, Any]:
    """The options for a certificate in files."""
    authority = make_authority("test", NOW, dt.timedelta(days=1))
    made = make_server(authority, "test", ["from.files"], NOW, dt.timedelta(days=1))
    (tmp_path / "tls.crt").write_bytes(made.certificate_pem)
    (tmp_path / "tls.key").write_bytes(made.key_pem)
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    return {"tls_cert": tmp_path / "tls.crt", "tls_key": tmp_path / "tls.key"}


def test_a_certificate_in_files_is_shown_and_watched(pair: dict[str, Any]) -> None:
    context, files = Entrance(**ADDRESS, **pair, host=("page.example",)).tls()
    assert files is not None
    assert names_in(context)[0] == ["from.files"]


def test_a_client_certificate_is_asked_for_where_there_is_a_proxy(pair: dict[str, Any]) -> None:
    authority = pair["tls_cert"].with_name("ca.crt")
    context, _ = Entrance(**ADDRESS, proxy_ca=authority, proxy_name=("proxy",)).tls()
    assert context.verify_mode == ssl.CERT_OPTIONAL
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_files_that_cannot_be_used_are_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "file").write_text(content)
    file = tmp_path / "file"
    with pytest.raises(PhalanxError, match=r"--proxy-ca .*file cannot be used: .*Nothing was started"):
        Entrance(**ADDRESS, proxy_ca=file, proxy_name=("proxy",)).tls()
    with pytest.raises(PhalanxError, match="this server makes its own certificate"):
        Entrance(**ADDRESS, tls_cert=file, tls_key=file).tls()
