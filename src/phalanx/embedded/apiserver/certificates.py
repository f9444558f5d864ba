"""The server's own certificate authority, its certificate, and the kubeconfig that trusts them.

Made on the first start and kept; the server's certificate is made anew when it is about to end or does not name the
address that the server now listens on. Keys are elliptic curves (P-256): small, and quick to sign with.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import socket
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from phalanx.embedded.apiserver.private import write_private
from phalanx.errors import PhalanxError

_CA_DAYS, _SERVER_DAYS, _RENEW_DAYS = 3650, 365, 30
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


def ensure(pki: Path, host: str) -> None:
    """Make what is missing in `pki`: ca.crt, ca.key, server.crt, server.key. Raises `PhalanxError`."""
    try:
        pki.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (pki / "ca.crt").exists() or not (pki / "ca.key").exists():
            _make_authority(pki)
        names = server_names(host)
        if not _still_good(pki / "server.crt", names) or not (pki / "server.key").exists():
            _make_server(pki, names)
    except (OSError, ValueError) as error:
        raise PhalanxError(
            f"cannot make or read the certificates in {pki}: {error}. Without them the API server cannot serve "
            "HTTPS; make the directory writable, or remove it to have new ones made."
        ) from error


def server_names(host: str) -> list[str]:
    """What the certificate is valid for: this machine by every name that a client here may use."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), *_SERVICE_NAMES]
    return list(dict.fromkeys([*names, *([host] if host not in ("", "0.0.0.0", "::") else [])]))  # noqa: S104


def _make_authority(pki: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phalanx-ca")])
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    certificate = (
        _builder(name, name, key.public_key(), _CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(pki / "ca", certificate, key)


def _make_server(pki: Path, names: list[str]) -> None:
    authority = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    authority_key = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise ValueError("ca.key is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phalanx-apiserver")])
    certificate = (
        _builder(subject, authority.subject, key.public_key(), _SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName([_alternative(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    _write(pki / "server", certificate, key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(stem.with_suffix(".key"), private)
    write_private(stem.with_suffix(".crt"), certificate.public_bytes(pem))


def _still_good(path: Path, names: list[str]) -> bool:
    if not path.exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {str(one) for one in found.get_values_for_type(x509.IPAddress)}
    known |= set(found.get_values_for_type(x509.DNSName))
    ends_in = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC)
    return ends_in > dt.timedelta(days=_RENEW_DAYS) and {str(_alternative(one).value) for one in names} <= known


def write_kubeconfig(path: Path, *, server: str, ca_certificate: Path, user: str, token: str) -> None:
    """A kubeconfig for one user, with the authority's certificate inside, so that the file alone is enough."""
    authority = base64.b64encode(ca_certificate.read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "phalanx", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "phalanx", "context": {"cluster": "phalanx", "user": user, "namespace": "default"}}],
        "current-context": "phalanx",
    }
    write_private(path, yaml.safe_dump(content, sort_keys=False))
