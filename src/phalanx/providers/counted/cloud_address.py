"""The address of a cloud provider that speaks `externalgrpc`, and the files for TLS."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from phalanx.errors import PhalanxError
from phalanx.providers.counted.called import is_loopback

UNIX = "unix:"


class CloudAddress(NamedTuple):
    """The address of the service. `address`: HOST:PORT or unix:PATH. `authority`: a PEM file with the certificates that
    sign the service's certificate. `certificate`, `key`: PEM files with the certificate and the key of this client.
    `timeout_s`: the time limit of one call."""

    address: str
    authority: Path | None
    certificate: Path | None
    key: Path | None
    timeout_s: float


def require_pem(file: Path) -> bytes:
    """Return the content of a file with certificates or a key. Raises PhalanxError."""
    try:
        found = file.read_bytes()
    except OSError as error:
        raise PhalanxError(f"{file} cannot be read: {error.strerror or error}") from None
    if b"-----BEGIN " not in found:
        raise PhalanxError(f"{file} holds no PEM")
    return found


def wrong_address(address: str, *, tls: bool) -> str:
    """Return why the address cannot be used for a service; empty if it can."""
    if address.startswith(UNIX):
        path = address.removeprefix(UNIX)
        return "" if path.startswith("/") else f"{address!r} has no absolute path; for example unix:/run/nodes.sock"
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536 or "/" in address or " " in address:
        return f"{address!r} is neither HOST:PORT nor unix:PATH; for example nodes.example.com:8086"
    if not tls and not is_loopback(host):
        return f"{address!r} is not encrypted: state caFile; without it only this machine and unix:PATH can be called"
    return ""
