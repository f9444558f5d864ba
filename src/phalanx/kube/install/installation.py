"""Install everything that Phalanx needs in a cluster. Each request to the API server is repeated until the server
answers.

`until_answered` repeats a request if the scheduler cannot begin without its answer. Only requests that are safe to
repeat may be passed to this function: reads, and the creation of objects that may already exist.

The module also obtains the key that signs the scheduler's records of starts (`phalanx.kube.read.records`).

The key is in the Secret `kube-system/phalanx-records`. `deploy/` creates the Secret empty. Only the scheduler may read
it, and the scheduler needs no right to any other Secret. The first leader creates the key, and later leaders use it. If
the Secret is emptied, the scheduler no longer recognizes earlier starts: running pods continue to run, and pending jobs
are placed again.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.kind import SECRETS
from phalanx.dialects.frame.dialect import Dialect
from phalanx.kube.install.admission_policy import AdmissionMode, install_policy
from phalanx.kube.install.definitions import VersionNotServed, install, install_dialect
from phalanx.kube.read.records import RecordKey, submitted_s

log = logging.getLogger(__name__)

Found = TypeVar("Found")
_BACKOFF_S = (0.1, 0.5, 1.0, 2.0)
_REFUSED_S = (0.5, 1.0, 2.0)


async def until_answered(call: Callable[[], Awaitable[Found]]) -> Found:
    """Repeat the call until the API server answers, and return the answer. If the server refuses the call, raise the
    refusal at once."""
    failures = 0
    while True:
        try:
            return await call()
        except ApiUnknown as error:
            log.warning("the request is repeated: %s", error)
            await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
            failures += 1


async def until_surely_refused(call: Callable[[], Awaitable[Found]]) -> Found:
    """Repeat the call as `until_answered` does, but raise a refusal with code 403 only after several such refusals. An
    API server that has just started answers 403 until it has read all roles."""
    for pause_s in _REFUSED_S:
        try:
            return await until_answered(call)
        except ApiRefusal as error:
            if error.code != 403:
                raise
            log.info("the request is repeated in %g s: %s", pause_s, error)
            await asyncio.sleep(pause_s)
    return await until_answered(call)


NAME, NAMESPACE = "phalanx-records", "kube-system"
_BYTES = 32


async def obtain_record_key(api: Connection, clock: Callable[[], float]) -> RecordKey | None:
    """Return the key of the cluster; create it if there is none. `clock`: returns seconds since the epoch. If the API
    server refuses access, log a warning and return None. The scheduler then accepts every record, even if a user wrote
    it."""
    try:
        return await until_surely_refused(lambda: _obtain(api, clock))
    except ApiRefusal as error:
        if error.code not in {403, 404}:
            raise
        log.warning(
            "users who may edit a Job can forge the record of its start, because there is no key to sign records; "
            "deploy/ creates the Secret %s/%s and the right to read it: %s",
            NAMESPACE,
            NAME,
            error,
        )
        return None


async def _obtain(api: Connection, clock: Callable[[], float]) -> RecordKey:
    while True:
        secret = await _find(api)
        if (key := read_key(secret.get("data") or {})) is not None:
            return key
        made = {"key": secrets.token_bytes(_BYTES), "since": str(clock()).encode()}
        data = {name: base64.b64encode(value).decode() for name, value in made.items()}
        try:
            await api.replace(SECRETS, {**secret, "data": data})
        except ApiRefusal as error:
            if error.code != 409:  # another process has just written a key
                raise


async def _find(api: Connection) -> Object:
    """Return the Secret for the key of the records. If it does not exist, create it without a key."""
    try:
        return await api.get(SECRETS, NAME, NAMESPACE)
    except ApiRefusal as error:
        if error.code != 404:
            raise
    meta = {"name": NAME, "namespace": NAMESPACE}
    body = {"apiVersion": SECRETS.api_version, "kind": SECRETS.name, "metadata": meta, "type": "Opaque"}
    try:
        return await api.create(SECRETS, body, NAMESPACE)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise
    return await api.get(SECRETS, NAME, NAMESPACE)


def read_key(data: Object) -> RecordKey | None:
    """Return the key in a Secret's data; None if it is missing or malformed (the caller then creates a new key)."""
    try:
        secret, since = (base64.b64decode(data[name], validate=True) for name in ("key", "since"))
        return RecordKey(secret=secret, since_s=float(since)) if len(secret) == _BYTES else None
    except KeyError:
        return None
    except (TypeError, ValueError, binascii.Error) as error:
        log.warning("the key in Secret %s/%s is malformed, and is replaced: %s", NAMESPACE, NAME, error)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The result of the installation. `admission`: the mechanism that queues Jobs for Phalanx. `record_key`: the key
    that signs the records of starts; None if records are not signed. `unread`: the dialects that stay disabled, because
    this cluster does not serve their kinds in a version that Phalanx reads."""

    admission: AdmissionMode = AdmissionMode.NEITHER
    record_key: RecordKey | None = None
    unread: frozenset[str] = frozenset()

    def submitted_s(self, text: str | None, uid: str, created_s: float) -> float:
        """Return when an object was submitted. The function `submitted_s` of `phalanx.kube.read.records` explains the
        parameters."""
        return submitted_s(text, uid, created_s, self.record_key)


async def install_all(
    api: Connection, clock: Callable[[], float], dialects: Iterable[Dialect[Any]] = ()
) -> Installation:
    """Install everything, and return the result. `clock`: a function that returns seconds since the epoch. `dialects`:
    the dialects to install."""
    _, mode, key, left = await asyncio.gather(  # concurrently, because these steps are independent
        until_answered(lambda: install(api)),
        until_answered(lambda: install_policy(api)),
        obtain_record_key(api, clock),
        asyncio.gather(*(_install_dialect(api, dialect) for dialect in dialects)),
    )
    return Installation(
        admission=mode,
        record_key=key,
        unread=frozenset(name for name in left if name),
    )


async def _install_dialect(api: Connection, dialect: Dialect[Any]) -> str:
    """Install the dialect. Return the dialect's name if the cluster does not serve its kinds in a version that Phalanx
    reads; otherwise ""."""
    try:
        await until_answered(lambda: install_dialect(api, dialect))
    except VersionNotServed as error:
        log.error("%s", error)  # noqa: TRY400 - the text names the version
        return dialect.name
    return ""
