"""The status of PodGroups, for whoever reads Volcano's: phase, counts, and the condition that says why it waits.

Written by the leader a moment after something changed, at most once every `pause_s` for all together, and nothing that
is as it was. Best effort: a write that is lost is mended by the next change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.moment import write_moment
from phalanx.dialects.volcano.reader import Phase, report
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.stages import Stage
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.kube.read.pod_group import POD_GROUPS, PodGroupCache, pod_group_key

log = logging.getLogger(__name__)

_NOT_FOUND = 404
_PHASES = {
    Stage.WAITING: Phase.PENDING,
    Stage.STARTING: Phase.INQUEUE,
    Stage.RUNNING: Phase.RUNNING,
    Stage.LEAVING: Phase.PENDING,
}


class PodGroupStatusWriter:
    """The writer of PodGroups' status. `run` writes until cancelled. `objects`: the PodGroups, by namespace/name.
    `may_write`: false past the leader's deadline."""

    def __init__(
        self,
        api: Connection,
        groups: PodGroupCache,
        gangs: Mapping[str, GangLifecycle],
        objects: Mapping[str, Object],
        now_s: Callable[[], float],
        may_write: Callable[[], bool],
    ) -> None:
        self._api, self._groups, self._gangs, self._objects = api, groups, gangs, objects
        self._now_s, self._may_write = now_s, may_write

    async def run(self, pause_s: float = 0.5) -> None:
        while True:
            await self._groups.news.wait()
            await asyncio.sleep(pause_s)  # what changes quickly is said once
            for name in self._groups.touched():
                if (obj := self._objects.get(pod_group_key(name))) is not None:
                    await self._write(obj, name)

    async def _write(self, obj: Object, name: str) -> None:
        meta, old, gang = obj["metadata"], obj.get("status") or {}, self._gangs.get(name)
        told = self._groups.told(name, _PHASES[gang.stage] if gang is not None else Phase.PENDING)
        status = report(told, old, write_moment(self._now_s()))
        if status == old or not self._may_write():
            return
        body = {"metadata": {"uid": meta["uid"]}, "status": {**dict.fromkeys(old), **status}}
        try:
            await self._api.patch(
                POD_GROUPS, meta["name"], body, meta["namespace"], "status", fieldManager=FIELD_MANAGER
            )
        except ApiRefusal as error:
            if error.code == _NOT_FOUND:  # Volcano's own definition has no such subresource, or the group is gone
                await self._write_plainly(obj, body)
                return
            log.info("the status of PodGroup %s/%s was not written: %s", meta["namespace"], meta["name"], error)
        except ApiError as error:
            log.info("the status of PodGroup %s/%s was not written: %s", meta["namespace"], meta["name"], error)
            self._groups.touch(name)

    async def _write_plainly(self, obj: Object, body: Object) -> None:
        meta = obj["metadata"]
        try:
            await self._api.patch(POD_GROUPS, meta["name"], body, meta["namespace"], fieldManager=FIELD_MANAGER)
        except ApiError as error:
            log.info("the status of PodGroup %s/%s was not written: %s", meta["namespace"], meta["name"], error)
