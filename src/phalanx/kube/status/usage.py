"""Save the past usage of users for the next scheduler process, so that a restart does not change their fair shares.

The usage is JSON in the ConfigMap `kube-system/phalanx-usage`. The scheduler writes it at most once a minute while jobs
run, and when it stops. If the scheduler is killed, at most one minute of usage is lost: the usage of jobs that have
ended since the last write. The usage of jobs that still run is not lost, because the next process adds their usage
since the last write.

The size of a ConfigMap limits the number of users, so the users with the least usage are left out if there are too
many. Invalid content of the ConfigMap is ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

import msgspec

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import CONFIG_MAPS
from phalanx.kube.install.installation import until_answered
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.model.event import UsageTold

log = logging.getLogger(__name__)

NAME, NAMESPACE = "phalanx-usage", "kube-system"
_KEY = "usage"
_MOST_BYTES = 900_000  # the size limit of a ConfigMap is 1 MiB
_STOP_S = 5.0  # the time limit of the last write


class PastUsage(Protocol):
    """The past usage that the scheduler keeps in memory."""

    def amounts(self, now_s: float) -> Iterable[tuple[str, str, float]]:
        """Yield (queue, user, usage in billed units times seconds, decayed to `now_s`)."""

    def is_held(self) -> bool:
        """Return whether any user holds resources now."""


class SavedUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage in the ConfigMap. `used`: the usage as tuples (queue, user, billed units times seconds). `at_s`: the
    time to which these amounts are decayed (seconds since the epoch)."""

    at_s: float
    used: list[tuple[str, str, float]]


def to_save(usage: PastUsage, now_s: float, most_bytes: int = _MOST_BYTES) -> SavedUsage:
    """Return the usage to save, sorted by amount, with as many users as fit into `most_bytes`. The users with the most
    usage come first."""
    amounts = list(usage.amounts(now_s))
    found: list[tuple[str, str, float]] = []
    for one in sorted((one for one in amounts if one[2] > 0), key=lambda one: (-one[2], one)):
        most_bytes -= len(msgspec.json.encode(one)) + 1
        if most_bytes < 0:
            log.warning("the usage of the %d users with the least usage is not saved", len(amounts) - len(found))
            break
        found.append(one)
    return SavedUsage(at_s=now_s, used=found)


async def load_usage(api: Connection) -> list[UsageTold]:
    """Return the saved usage; empty if there is none, or if it is invalid. Repeat the request until the API server
    answers."""
    return await until_answered(lambda: _load(api))


async def _load(api: Connection) -> list[UsageTold]:
    try:
        text = ((await api.get(CONFIG_MAPS, NAME, NAMESPACE)).get("data") or {}).get(_KEY, "")
        if not text:  # deploy/ creates an empty ConfigMap, so that the scheduler needs no right to create one
            return []
        found = msgspec.json.decode(text, type=SavedUsage)
    except ApiRefusal as error:
        if error.code not in {403, 404}:
            raise
        if error.code == 403:
            log.warning("past usage is not known: %s", error)
        return []
    except msgspec.MsgspecError as error:
        log.warning("past usage is not known: ConfigMap %s/%s is malformed: %s", NAMESPACE, NAME, error)
        return []
    return [UsageTold(queue, user, used, found.at_s) for queue, user, used in found.used]


async def keep_usage(
    api: Connection,
    usage: PastUsage,
    now_s: Callable[[], float],
    may_write: Callable[[], bool] = lambda: True,
    pause_s: float = 60.0,
) -> None:
    """Write the usage once a minute until cancelled, and once more at the end. `now_s`: returns seconds since the
    epoch."""
    stirred = False  # True if users have held resources since the last write
    try:
        while True:
            await asyncio.sleep(pause_s)
            holds = usage.is_held()
            if holds or stirred:
                stirred = not await save_usage(api, usage, now_s(), may_write) or holds
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await save_usage(api, usage, now_s(), may_write)


async def save_usage(
    api: Connection, usage: PastUsage, now_s: float, may_write: Callable[[], bool] = lambda: True
) -> bool:
    """Write the usage. Return True if the write succeeded."""
    if not may_write():
        return False
    try:
        await _write(api, {"data": {_KEY: msgspec.json.encode(to_save(usage, now_s)).decode()}})
    except ApiError as error:
        log.info("past usage was not written: %s", error)
        return False
    return True


async def _write(api: Connection, body: Object) -> None:
    try:
        await api.patch(CONFIG_MAPS, NAME, body, NAMESPACE, fieldManager=FIELD_MANAGER)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        head = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.name}
        await api.create(CONFIG_MAPS, {**head, "metadata": {"name": NAME, "namespace": NAMESPACE}, **body}, NAMESPACE)
