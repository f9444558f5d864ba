"""Create the certificates, tokens and kubeconfig files of a server in its data directory."""

from __future__ import annotations

import errno
import secrets
import ssl

from phalanx.embedded.apiserver.auth import authority
from phalanx.embedded.apiserver.auth.authentication import ensure_user, token_of, write_tokens
from phalanx.embedded.apiserver.auth.authority import write_private
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.errors import PhalanxError

ADMIN = "admin"
CONTROL_PLANE = "system:phalanx"  # the user of the scheduler, of the controllers and of the node of `phalanx up`


def create_credentials(settings: StoreSettings, port: int) -> ssl.SSLContext:
    """Create the missing certificates, tokens and kubeconfig files. Existing files are kept."""
    authority.ensure(settings.pki, settings.host)
    try:
        if not settings.tokens.exists():
            write_tokens(settings.tokens, [(ADMIN, ADMIN, (MASTERS,))])
        ensure_user(settings.tokens, CONTROL_PLANE, (MASTERS,))
        if not settings.kubelet_token.exists():
            write_private(settings.kubelet_token, secrets.token_urlsafe(32) + "\n")
        host = "127.0.0.1" if settings.host in ("0.0.0.0", "") else settings.host  # noqa: S104 (compared, not bound)
        for file, user in ((settings.kubeconfig, ADMIN), (settings.control_plane_kubeconfig, CONTROL_PLANE)):
            authority.write_kubeconfig(
                file,
                server=f"https://{host}:{port}",
                ca_certificate=settings.ca_certificate,
                user=user,
                token=token_of(settings.tokens, user),
            )
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_cert_chain(settings.pki / "server.crt", settings.pki / "server.key")
    except OSError as error:
        cure = "Make the directory readable and writable for this user"
        if isinstance(error, ssl.SSLError):
            cure = "They are damaged: restore a backup, or remove pki/ and tokens.csv, then all users must log in again"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            cure = "The disk is full: free some space there"
        raise PhalanxError(
            f"cannot create or read the credentials in {settings.data_dir}: {error}. Nothing was started. {cure}."
        ) from error
    return tls
