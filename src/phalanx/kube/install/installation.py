"""Install everything that Phalanx needs in a cluster. Each request is repeated until the API server answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import Connection
from phalanx.dialects.frame.dialect import Dialect
from phalanx.kube.install.admission_policy import AdmissionMode, install_policy
from phalanx.kube.install.definitions import install
from phalanx.kube.install.dialects import VersionNotServed, install_dialect
from phalanx.kube.install.record_key import obtain_record_key
from phalanx.kube.install.retry import until_answered
from phalanx.kube.read.records import RecordKey, submitted_s

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`admission`: the mechanism that queues Jobs for Phalanx. `record_key`: the key that signs the records of starts;
    None: records are not signed. `unread`: dialects whose kinds this cluster does not serve in a version that Phalanx
    reads."""

    admission: AdmissionMode = AdmissionMode.NEITHER
    record_key: RecordKey | None = None
    unread: frozenset[str] = frozenset()

    def submitted_s(self, text: str | None, uid: str, created_s: float) -> float:
        """Return when an object was submitted (`phalanx.kube.read.records`)."""
        return submitted_s(text, uid, created_s, self.record_key)


async def install_all(
    api: Connection, clock: Callable[[], float], dialects: Iterable[Dialect[Any]] = ()
) -> Installation:
    """Install everything, and return the result. `clock`: returns seconds since the epoch. `dialects`: the dialects to
    install."""
    _, mode, key, left = await asyncio.gather(  # concurrently, because they are independent
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
