"""The server's own certificate authority, its certificate, and the kubeconfig that trusts them.

The certificates are created at the first start and kept. The server's certificate is created again when it is about to
expire, or does not name the address on which the server now listens.
"""

from __future__ import annotations

import base64
import datetime as dt
import errno
import socket
from pathlib import Path

import msgspec
from cryptography import x509

from phalanx.embedded.apiserver.auth.authority import Pair, alternative, make_authority, make_server, read_pair
from phalanx.embedded.apiserver.auth.private import write_private
from phalanx.errors import PhalanxError

_CA_DAYS, _SERVER_DAYS, _RENEW_DAYS = 3650, 365, 30
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


def ensure(pki: Path, host: str) -> None:
    """Create the missing files in `pki`: ca.crt, ca.key, server.crt, server.key. Raises `PhalanxError`."""
    try:
        pki.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (pki / "ca.crt").exists() or not (pki / "ca.key").exists():
            _make_authority(pki)
        names = server_names(host)
        if not _still_good(pki / "server.crt", names) or not (pki / "server.key").exists():
            _make_server(pki, names)
    except (OSError, ValueError) as error:
        cure = "Make the directory readable and writable for this user"
        if isinstance(error, ValueError):
            cure = "They are damaged: restore a backup, or remove the directory, and all users log in anew"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            cure = "The disk is full: free some space there"
        raise PhalanxError(
            f"cannot make or read the certificates in {pki}, without which the API server cannot serve HTTPS: {error}. "
            f"Nothing was started. {cure}."
        ) from error


def server_names(host: str) -> list[str]:
    """Return what the certificate is valid for: this machine by every name that a client here may use."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), *_SERVICE_NAMES]
    return list(dict.fromkeys([*names, *([host] if host not in ("", "0.0.0.0", "::") else [])]))  # noqa: S104 (compared, not bound)


def _make_authority(pki: Path) -> None:
    _write(pki / "ca", make_authority("phalanx-ca", _now(), dt.timedelta(days=_CA_DAYS)))


def _make_server(pki: Path, names: list[str]) -> None:
    authority = read_pair((pki / "ca.crt").read_bytes(), (pki / "ca.key").read_bytes())
    _write(pki / "server", make_server(authority, "phalanx-apiserver", names, _now(), dt.timedelta(days=_SERVER_DAYS)))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _write(stem: Path, pair: Pair) -> None:
    write_private(stem.with_suffix(".key"), pair.key_pem)
    write_private(stem.with_suffix(".crt"), pair.certificate_pem)


def _still_good(path: Path, names: list[str]) -> bool:
    if not path.exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {str(one) for one in found.get_values_for_type(x509.IPAddress)}
    known |= set(found.get_values_for_type(x509.DNSName))
    ends_in = certificate.not_valid_after_utc - _now()
    return ends_in > dt.timedelta(days=_RENEW_DAYS) and {str(alternative(one).value) for one in names} <= known


def write_kubeconfig(path: Path, *, server: str, ca_certificate: Path, user: str, token: str) -> None:
    """Write a kubeconfig for one user. It contains the authority's certificate, so that no other file is needed. It is
    JSON, which is valid YAML and fast to read, because short commands begin by reading it."""
    authority = base64.b64encode(ca_certificate.read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "phalanx", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "phalanx", "context": {"cluster": "phalanx", "user": user, "namespace": "default"}}],
        "current-context": "phalanx",
    }
    write_private(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
