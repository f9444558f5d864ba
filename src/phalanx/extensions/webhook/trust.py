"""Manage the certificates of a server that API servers call: a webhook, or an aggregated API server.

The certificate of the server is signed by Phalanx's own certificate authority. The certificate of this authority is
written as `caBundle` to the configuration that makes API servers call this process (`Called`): a webhook configuration,
or APIServices.

- All replicas share the authority, which is in a Secret. `ca.crt` has the certificate of the authority and the
  certificates of earlier authorities that are still valid; `ca.key` has the key of the authority. A replica creates a
  new authority if there is none, or if less than a third of its validity is left. If two replicas do this at the same
  time, the second write fails because of the Secret's resourceVersion.
- Each replica has its own server certificate. Its key exists only in the memory of the replica.
- API servers must trust a new authority before a replica uses a certificate of it. So the new `ca.crt`, with the old
  certificates, is first written as `caBundle`. A replica uses a certificate of the new authority only after it has read
  this authority from `caBundle`. So the replicas may run these steps in any order."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import SECRETS, Kind
from phalanx.embedded.apiserver.auth.authority import Pair, make_authority, make_server, read_pair
from phalanx.kube.install.admission_policy import WEBHOOK, WEBHOOKS

log = logging.getLogger(__name__)

AUTHORITY_LIFE, SERVED_LIFE = dt.timedelta(days=365), dt.timedelta(days=30)
# The pause between two steps, in seconds. If a user replaces the configuration and so removes the caBundle, Jobs with
# the queue label are refused until the next step.
PAUSE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """The objects that make API servers call this process. `kept_in`: the name of the Secret with the authority.
    `kind`, `names`: the kind and the names of the configuration objects. `told`: a function that returns the parts of a
    configuration object that have a `caBundle`. `made_by`: the manifests that install the Service, the Secret and the
    configuration, for error messages."""

    kept_in: str
    kind: Kind
    names: tuple[str, ...]
    told: Callable[[Object], Iterable[Object]]
    made_by: str


CALLED_AS_WEBHOOK = Called(
    kept_in="phalanx-webhook",
    kind=WEBHOOKS,
    names=(str(WEBHOOK["metadata"]["name"]),),
    told=lambda configuration: [hook["clientConfig"] for hook in configuration.get("webhooks") or ()],
    made_by="deploy/overlays/webhook",
)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority. `pair`: its certificate and key. `trusted`: the certificates of the caBundle, the
    certificate of this authority first."""

    pair: Pair
    trusted: tuple[x509.Certificate, ...]

    @property
    def bundle(self) -> bytes:
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.trusted)


def read_authority(data: Object, secret: str) -> Authority | None:
    """Return the authority in the data of the Secret `secret`; None if there is none. Invalid data counts as no
    authority and is logged as a warning; the caller then replaces it."""
    try:
        bundle, key = (base64.b64decode(data[name]) for name in ("ca.crt", "ca.key"))
        trusted = tuple(x509.load_pem_x509_certificates(bundle))
        return Authority(read_pair(trusted[0].public_bytes(Encoding.PEM), key), trusted)
    except KeyError:
        return None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        log.warning("the authority in Secret %s is invalid, and is replaced: %s", secret, error)
        return None


def renewed(authority: Authority | None, secret: str, now: dt.datetime) -> Authority | None:
    """Return a new authority, whose caBundle also has the earlier certificates that are still valid. Return None if
    `authority` need not be replaced yet."""
    if authority is not None and not is_ending(authority.pair.certificate, now):
        return None
    pair = make_authority(f"{secret}-ca-{now:%Y-%m-%d}", now, AUTHORITY_LIFE)
    before = authority.trusted if authority is not None else ()
    valid = (one for one in before if one.not_valid_after_utc > now)
    return Authority(pair, (pair.certificate, *valid))


def is_ending(certificate: x509.Certificate, now: dt.datetime) -> bool:
    """Return whether less than a third of the certificate's validity is left."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - now < (end - begin) / 3


class Keeper:
    """Keeps the Secret, the configuration and the server certificate consistent. `namespace`: the namespace of the
    Secret. `names`: the DNS names of the server certificate. `serve`: a function that is called with each new server
    certificate. `now`: a function that returns the present time."""

    def __init__(
        self,
        api: Connection,
        namespace: str,
        names: Sequence[str],
        serve: Callable[[Pair], None],
        now: Callable[[], dt.datetime],
        called: Called = CALLED_AS_WEBHOOK,
    ) -> None:
        self._api, self._namespace, self._names, self._serve, self._now = api, namespace, names, serve, now
        self._called = called
        self._served: Pair | None = None
        self._failure = ""

    def wrong(self) -> str:
        """Return the reason why the process has no valid certificate; "" if it has one."""
        if self._served is None:
            return self._failure or "no certificate has been created yet"
        return f"the certificate has expired: {self._failure}" if self._served_end() <= self._now() else ""

    @property
    def ends_s(self) -> float:
        """The expiry of the server certificate in seconds since the epoch; 0 if there is none."""
        return 0.0 if self._served is None else self._served_end().timestamp()

    async def keep(self) -> None:
        """Run a step every `PAUSE_S` seconds, without end. A failed step is logged and tried again. The server
        certificate stays valid for days, so a failure has no immediate effect."""
        while True:
            try:
                await self.step()
                failure = ""
            except ApiError as error:
                failure = str(error)
            if failure and failure != self._failure:
                log.warning("the certificate cannot be renewed: %s", failure)
            self._failure = failure
            await asyncio.sleep(PAUSE_S)

    async def step(self) -> None:
        """Bring the Secret, the configuration and the server certificate up to date. Raises ApiError."""
        # The configuration is read before the Secret, so that a write of an outdated caBundle fails with a conflict.
        kind = self._called.kind
        configurations = [await self._found(kind.name, self._api.get(kind, name)) for name in self._called.names]
        authority = await self._authority()
        was_trusted = all([await self._publish(authority, one) for one in configurations])
        if self._is_due(authority, was_trusted):
            self._take(authority)

    def _is_due(self, authority: Authority, was_trusted: bool) -> bool:
        served, now = self._served, self._now()
        if served is None or self._served_end() <= now:
            return True
        return was_trusted and (not _of(authority, served) or is_ending(served.certificate, now))

    def _served_end(self) -> dt.datetime:
        assert self._served is not None
        return self._served.certificate.not_valid_after_utc

    def _take(self, authority: Authority) -> None:
        served = make_server(authority.pair, self._called.kept_in, self._names, self._now(), SERVED_LIFE)
        self._serve(served)
        self._served = served
        log.info("serving with a certificate that is valid until %s", self._served_end())

    async def _authority(self) -> Authority:
        name = self._called.kept_in
        secret = await self._found(f"Secret {self._namespace}/{name}", self._api.get(SECRETS, name, self._namespace))
        authority = read_authority(secret.get("data") or {}, name)
        following = renewed(authority, name, self._now())
        if following is None:
            assert authority is not None
            return authority
        said = {"ca.crt": following.bundle, "ca.key": following.pair.key_pem}
        data = {name: base64.b64encode(text).decode() for name, text in said.items()}
        try:
            await self._api.replace(SECRETS, {**secret, "data": {**(secret.get("data") or {}), **data}})
        except ApiRefusal as error:
            if error.code != 409:
                raise
            return await self._authority()  # another replica has created an authority, which is used
        log.info("made a new authority, valid until %s", following.pair.certificate.not_valid_after_utc)
        return following

    async def _publish(self, authority: Authority, configuration: Object) -> bool:
        """Write the caBundle of the authority to the configuration. Return True if the configuration had it already."""
        wanted = base64.b64encode(authority.bundle).decode()
        if all(part.get("caBundle") == wanted for part in self._called.told(configuration)):
            return True
        changed = deepcopy(configuration)
        for part in self._called.told(changed):
            part["caBundle"] = wanted
        try:
            await self._api.replace(self._called.kind, changed)
        except ApiRefusal as error:
            if error.code != 409:  # after a conflict, the next step reads the object again
                raise
        return False

    async def _found(self, what: str, call: Awaitable[Object]) -> Object:
        cure = f"{self._called.made_by} creates it, and the right to access it"
        try:
            return await call
        except ApiRefusal as error:
            raise ApiRefusal(error.code, error.reason, f"{what}: {error.message}; {cure}", error.details) from error


def _of(authority: Authority, served: Pair) -> bool:
    """Return whether the authority signed the certificate `served`."""
    try:
        served.certificate.verify_directly_issued_by(authority.pair.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
