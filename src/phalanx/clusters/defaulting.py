"""Keep a list of the LocalQueues that send their jobs to other clusters. The admission policy that sets `managedBy`
reads this list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import CONFIG_MAPS, Kind
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.checks import SENDING, sending_queues
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.kube.read.labels import FIELD_MANAGER

log = logging.getLogger(__name__)

_SPACE = "kueue-system"
_READ = (kinds.ADMISSION_CHECKS, kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES)
_RETRY_S = 2.0  # the pause before the next attempt to write the list


async def keep_sending_queues(api: Connection, informers: Callable[[Kind], Informer]) -> None:
    """Keep the list of sending queues up to date, until cancelled."""
    changed = asyncio.Event()
    for kind in _READ:
        informers(kind).subscribe(lambda _: changed.set())
    while True:
        await changed.wait()
        changed.clear()
        try:
            await _write_list(api, informers)
        except ApiError as error:
            log.warning("the list of queues that send their jobs to other clusters was not written: %s", error)
            await asyncio.sleep(_RETRY_S)
            changed.set()


async def _write_list(api: Connection, informers: Callable[[Kind], Informer]) -> None:
    """Write the list of sending queues into its ConfigMap if the list has changed. The ConfigMap is created as soon as
    a queue sends its jobs to other clusters. Raises ApiError."""
    wanted = sending_queues({kind: informers(kind).objects for kind in _READ})
    config_map = informers(CONFIGURATIONS).objects.get(f"{_SPACE}/{SENDING}")
    if wanted == ((config_map or {}).get("data") or {}).get("queues", ""):
        return
    data = {"data": {"queues": wanted}}
    if config_map is not None:
        after = await api.patch(CONFIG_MAPS, SENDING, data, _SPACE, fieldManager=FIELD_MANAGER)
    else:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SENDING, "namespace": _SPACE}, **data}
        try:
            after = await api.create(CONFIG_MAPS, body, _SPACE)
        except ApiRefusal as error:
            if error.reason != "AlreadyExists":  # the ConfigMap exists, but is not in the cache yet
                raise
            after = await api.patch(CONFIG_MAPS, SENDING, data, _SPACE, fieldManager=FIELD_MANAGER)
    informers(CONFIGURATIONS).observe(after)
