"""The options of `phalanx dashboard` for a page with several viewers: the address, its certificate, and an
authenticating proxy."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from phalanx.embedded.apiserver.auth.authority import make_authority, make_server
from phalanx.errors import PhalanxError
from phalanx.extensions.webhook.serving import Files, show, tls_context
from phalanx.metrics import address as addresses

_OWN_LIFE = dt.timedelta(days=365)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Options of a page with several viewers, who sign in."""

    sign_in: bool = False
    """Each viewer signs in with a bearer token of the cluster, and sees the objects that this token may list."""

    address: str | None = None
    """Also serve the page at this address, HOST:PORT, over TLS. Needs --sign-in."""

    tls_cert: Path | None = None
    """A file with the certificate for --address, in PEM. It is read again when it changes. [default: a self-made
    certificate]"""

    tls_key: Path | None = None
    """A file with the private key of --tls-cert, in PEM."""

    host: tuple[str, ...] = ()
    """A host name by which browsers reach the page. The option may be repeated. [default: localhost only]"""

    proxy_ca: Path | None = None
    """A file with the certificate authority of the client certificate of an authenticating proxy, in PEM."""

    proxy_name: tuple[str, ...] = ()
    """The common name of the proxy's client certificate. The page trusts the headers X-Remote-User and X-Remote-Group
    of this proxy."""

    def public(self) -> tuple[str, int] | None:
        """Return host and port of --address; None without this option. Raises PhalanxError for options that exclude or
        need each other."""
        if not self.sign_in and (self.address or self.host or self.proxy_ca or self.proxy_name):
            raise PhalanxError(
                "--address, --host, --proxy-ca and --proxy-name need --sign-in: without it you are the only "
                "viewer of the page. Nothing was started."
            )
        if bool(self.proxy_ca) != bool(self.proxy_name) or (self.proxy_ca and not self.address):
            raise PhalanxError("--proxy-ca and --proxy-name need each other and --address. Nothing was started.")
        if bool(self.tls_cert) != bool(self.tls_key) or (self.tls_cert and not self.address):
            raise PhalanxError("--tls-cert and --tls-key need each other and --address. Nothing was started.")
        return None if self.address is None else addresses.address(self.address)

    def tls(self) -> tuple[ssl.SSLContext, Files | None]:
        """Return the TLS context for --address, and the certificate files that it must read again; without files, the
        context has a self-made certificate. Raises PhalanxError if the files cannot be used."""
        context, files = tls_context(), None
        if self.tls_cert is not None and self.tls_key is not None:
            files = Files(context, self.tls_cert, self.tls_key)
        else:
            now = dt.datetime.now(dt.UTC)
            authority = make_authority("phalanx-dashboard", now, _OWN_LIFE)
            show(context, make_server(authority, "phalanx-dashboard", ["localhost", *self.host], now, _OWN_LIFE))
        if self.proxy_ca is not None:
            try:
                context.load_verify_locations(self.proxy_ca)
            except (OSError, ssl.SSLError) as error:
                raise PhalanxError(
                    f"--proxy-ca {self.proxy_ca} cannot be used: {error}. Nothing was started."
                ) from error
            context.verify_mode = ssl.CERT_OPTIONAL
        return context, files
