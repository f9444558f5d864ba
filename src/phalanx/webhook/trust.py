"""Why an API server believes us: an authority of our own, its certificate in the configuration that makes the API
server call us, and a certificate of it that we serve with.

The authority lives in a Secret that all replicas share (`ca.crt`: its certificate, and after it those of earlier ones
that are still valid; `ca.key`). Who finds it missing, or with less than a third of its life left, makes the next; the
Secret's resourceVersion decides between two who do so at once. What is served is each replica's own: its key is made in
its memory and leaves it for nobody.

Nobody may be served with what he does not trust yet. So `ca.crt` is written into the configuration as `caBundle`
first, with the old beside the new, and a certificate of a new authority is served only from the step after the one that
found it there. That makes each step harmless by itself, in whatever order replicas take theirs.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import SECRETS
from phalanx.embedded.apiserver.auth.authority import Pair, make_authority, make_server, read_pair
from phalanx.kube.install.admission_policy import WEBHOOK, WEBHOOKS

log = logging.getLogger(__name__)

SECRET, CONFIGURATION = "phalanx-webhook", str(WEBHOOK["metadata"]["name"])
AUTHORITY_LIFE, SERVED_LIFE = dt.timedelta(days=365), dt.timedelta(days=30)
PAUSE_S = 15.0  # who replaces the configuration takes the bundle out of it: until then labelled Jobs are refused
_CURE = "deploy/overlays/webhook makes it, and the right to it"


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority that signs, and whose certificates are trusted: its own first."""

    pair: Pair
    trusted: tuple[x509.Certificate, ...]

    @property
    def bundle(self) -> bytes:
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.trusted)


def read_authority(data: Object) -> Authority | None:
    """Of a Secret's data; None if there is none. What cannot be read is as if it were not there, and is replaced."""
    try:
        bundle, key = (base64.b64decode(data[name]) for name in ("ca.crt", "ca.key"))
        trusted = tuple(x509.load_pem_x509_certificates(bundle))
        return Authority(read_pair(trusted[0].public_bytes(Encoding.PEM), key), trusted)
    except KeyError:
        return None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        log.warning("the authority in Secret %s is not as we write it, and is made anew: %s", SECRET, error)
        return None


def renewed(authority: Authority | None, now: dt.datetime) -> Authority | None:
    """Return the next one, which trusts the last while it is valid; None if it is not time yet."""
    if authority is not None and not is_ending(authority.pair.certificate, now):
        return None
    pair = make_authority(f"phalanx-webhook-ca-{now:%Y-%m-%d}", now, AUTHORITY_LIFE)
    before = authority.trusted if authority is not None else ()
    valid = (one for one in before if one.not_valid_after_utc > now)
    return Authority(pair, (pair.certificate, *valid))


def is_ending(certificate: x509.Certificate, now: dt.datetime) -> bool:
    """Less than a third of its life is left."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - now < (end - begin) / 3


class Keeper:
    """Keeps Secret, configuration and what is served in step. `serve` is given every certificate that is to be served
    from now on. `now`: the time of day, which certificates are about."""

    def __init__(
        self,
        api: Connection,
        namespace: str,
        names: Sequence[str],
        serve: Callable[[Pair], None],
        now: Callable[[], dt.datetime],
    ) -> None:
        self._api, self._namespace, self._names, self._serve, self._now = api, namespace, names, serve, now
        self._served: Pair | None = None
        self._failure = ""

    def wrong(self) -> str:
        """Return why nobody can be served; empty: nothing."""
        if self._served is None:
            return self._failure or "the certificate is not made yet"
        return f"the certificate has ended: {self._failure}" if self._served_end() <= self._now() else ""

    @property
    def ends_s(self) -> float:
        """When what is served ends, in seconds since the epoch; 0: nothing is served."""
        return 0.0 if self._served is None else self._served_end().timestamp()

    async def keep(self) -> None:
        """For ever. What fails is tried again: what is served meanwhile is valid for days."""
        while True:
            try:
                await self.step()
                failure = ""
            except ApiError as error:
                failure = str(error)
            if failure and failure != self._failure:
                log.warning("the certificate is not kept up to date: %s", failure)
            self._failure = failure
            await asyncio.sleep(PAUSE_S)

    async def step(self) -> None:
        """Once. Raises ApiError."""
        # The configuration is read before the Secret: who then writes into it what is older is refused.
        configuration = await _found(WEBHOOKS.name, self._api.get(WEBHOOKS, CONFIGURATION))
        authority = await self._authority()
        was_trusted = await self._publish(authority, configuration)
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
        served = make_server(authority.pair, "phalanx-webhook", self._names, self._now(), SERVED_LIFE)
        self._serve(served)
        self._served = served
        log.info("serving with a certificate that is valid until %s", self._served_end())

    async def _authority(self) -> Authority:
        secret = await _found(f"Secret {self._namespace}/{SECRET}", self._api.get(SECRETS, SECRET, self._namespace))
        authority = read_authority(secret.get("data") or {})
        following = renewed(authority, self._now())
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
            return await self._authority()  # another replica was faster: its authority is ours
        log.info("made a new authority, valid until %s", following.pair.certificate.not_valid_after_utc)
        return following

    async def _publish(self, authority: Authority, configuration: Object) -> bool:
        """The configuration trusts the authority from now on; whether it did before."""
        wanted = base64.b64encode(authority.bundle).decode()
        hooks = configuration.get("webhooks") or []
        if all(hook["clientConfig"].get("caBundle") == wanted for hook in hooks):
            return True
        told = [{**hook, "clientConfig": {**hook["clientConfig"], "caBundle": wanted}} for hook in hooks]
        try:
            await self._api.replace(WEBHOOKS, {**configuration, "webhooks": told})
        except ApiRefusal as error:
            if error.code != 409:  # somebody wrote it meanwhile: the next step reads what
                raise
        return False


async def _found(what: str, call: Awaitable[Object]) -> Object:
    try:
        return await call
    except ApiRefusal as error:
        raise ApiRefusal(error.code, error.reason, f"{what}: {error.message}; {_CURE}", error.details) from error


def _of(authority: Authority, served: Pair) -> bool:
    """Did it sign that?"""
    try:
        served.certificate.verify_directly_issued_by(authority.pair.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
