"""Create a certificate authority, and sign the certificate of a server with it. This module also writes files that hold
secrets, and the kubeconfig that trusts the authority.

The keys are elliptic-curve keys (P-256), which are small and sign fast. Certificates are valid from one hour before
their creation, because the clocks of clients may be slow.

Files that hold secrets are readable only by their owner from their creation on, and are replaced in one step.

The server has a certificate authority of its own, a certificate that this authority signed, and a kubeconfig that
trusts the authority.

The certificates are created at the first start and kept. The server's certificate is created again when it is about to
expire, or when it does not name the address on which the server listens."""

from __future__ import annotations

import base64
import datetime as dt
import errno
import ipaddress
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from phalanx.errors import PhalanxError

_PEM = serialization.Encoding.PEM
_EARLIER = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(_PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def read_pair(certificate_pem: bytes, key_pem: bytes) -> Pair:
    """Decode a certificate and its private key. Raises ValueError if one of them cannot be decoded, or if the key does
    not belong to the certificate."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    key = serialization.load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic-curve key")  # noqa: TRY004 - the file is wrong, not a type
    if certificate.public_key() != key.public_key():
        raise ValueError("the key is not that of the certificate")
    return Pair(certificate, key)


def make_authority(name: str, now: dt.datetime, life: dt.timedelta) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    certificate = (
        _builder(subject, subject, key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate, key)


def make_server(authority: Pair, name: str, names: Iterable[str], now: dt.datetime, life: dt.timedelta) -> Pair:
    """Return a new server certificate with its key. `names`: the host names and addresses that it is valid for. `life`:
    how long it is valid; it never outlasts the authority's certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + life, authority.certificate.not_valid_after_utc)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        _builder(_named(name), authority.certificate.subject, key, now, end)
        .add_extension(x509.SubjectAlternativeName([alternative(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Pair(certificate, key)


def alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: dt.datetime, end: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(end)
    )


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file with mode 0600. The file never has another mode, not even while it is written. A reader sees either
    the old content or the new."""
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


_CA_DAYS, _SERVER_DAYS, _RENEW_DAYS = 3650, 365, 30
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


def ensure(pki: Path, host: str) -> None:
    """Create the missing files in `pki`: ca.crt, ca.key, server.crt, server.key. Raises `PhalanxError`."""
    try:
        pki.mkdir(parents=True, exist_ok=True, mode=0o700)
        names = server_names(host)
        is_signed = (pki / "ca.crt").exists() and (pki / "ca.key").exists()
        if not is_signed:
            _make_authority(pki)
        if not is_signed or not _still_good(pki / "server.crt", names) or not (pki / "server.key").exists():
            _make_server(pki, names)
    except (OSError, ValueError) as error:
        cure = "Make the directory readable and writable for this user"
        if isinstance(error, ValueError):
            cure = "They are damaged: restore a backup, or remove the directory; all users must then log in again"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            cure = "The disk is full: free some space there"
        raise PhalanxError(
            f"cannot create or read the certificates in {pki}, without which the API server cannot serve HTTPS: "
            f"{error}. Nothing was started. {cure}."
        ) from error


def server_names(host: str) -> list[str]:
    """Return the names and addresses for which the certificate must be valid: all names and addresses that clients may
    use to reach this machine."""
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
    """Write a kubeconfig for one user. It contains the authority's certificate, so that clients need no other file. The
    kubeconfig is written as JSON, which is valid YAML. JSON is fast to read, and every command reads the kubeconfig
    first."""
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
