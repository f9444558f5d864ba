"""The key that signs the scheduler's records of starts (`phalanx.kube.read.records`).

The key is in the Secret `kube-system/phalanx-records`. `deploy/` creates the Secret empty. Only the scheduler may read
it, and the scheduler needs no right to any other Secret. The first leader creates the key, and later leaders use it. If
the Secret is emptied, earlier starts are not recognized: running pods go on, and pending jobs are placed again.
"""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
from collections.abc import Callable

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import SECRETS
from phalanx.kube.install.retry import until_surely_refused
from phalanx.kube.read.records import RecordKey

log = logging.getLogger(__name__)

NAME, NAMESPACE = "phalanx-records", "kube-system"
_BYTES = 32


async def obtain_record_key(api: Connection, clock: Callable[[], float]) -> RecordKey | None:
    """Return the key of the cluster; create it if there is none. `clock`: returns seconds since the epoch. Return None,
    with a warning, if the server refuses access. Then every record is accepted, even if a user wrote it."""
    try:
        return await until_surely_refused(lambda: _obtain(api, clock))
    except ApiRefusal as error:
        if error.code not in {403, 404}:
            raise
        log.warning(
            "who may edit a Job can forge the record of its start, since there is no key to sign records with; "
            "deploy/ makes the Secret %s/%s and the right to it: %s",
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
            if error.code != 409:  # another process has just created one
                raise


async def _find(api: Connection) -> Object:
    """Return the Secret. Create it empty if it does not exist."""
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
        log.warning("the key in Secret %s/%s is not as we write it, and is made anew: %s", NAMESPACE, NAME, error)
        return None
