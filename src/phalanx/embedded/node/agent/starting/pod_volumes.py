"""The volumes and the tokens of a pod on this node."""

from __future__ import annotations

import logging

from phalanx.client.connection import ApiError, Object
from phalanx.embedded.node.agent.starting.api_objects import ApiObjects
from phalanx.embedded.node.machine.surroundings import VOLUMES, Surroundings
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.environment import EnvironmentFault
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.embedded.node.pod.tokens import renew, token_files

log = logging.getLogger(__name__)

_RENEW_AGAIN_S = 5.0  # the pause after a failed renewal


class PodVolumes:
    """The folders of a pod's volumes and tokens, from `set_up` to `remove`."""

    def __init__(self, pod: Object, record: PodRecord, around: Surroundings) -> None:
        self._record, self._around, self._objects = record, around, ApiObjects(around.connection)
        self._root = around.pod_dir(record.uid) / VOLUMES
        self._tokens = token_files(pod, self._root)
        self._is_ready = False

    async def set_up(self, pod: Object, with_addresses: Object) -> None:
        """Set up the volumes at the first call. Raises EnvironmentFault, ApiError."""
        if self._is_ready:
            return
        around, owner = self._around, self._around.owner(self._record.namespace)
        if owner is not None:
            volumes.check_paths_of_machine(pod)
        parts = around.allocatable, self._objects.look_up, self._objects.token
        await volumes.set_up(with_addresses, self._root, *parts, confined=owner is not None)
        if owner is not None:
            volumes.give(self._root, owner.user, owner.group)
        self._is_ready = True

    async def renew_tokens(self, pod: Object, now_s: float) -> float | None:
        """Renew the tokens, and return the time of the next check; None without tokens. A failed renewal is tried again
        long before the old token expires."""
        if not self._tokens:
            return None
        try:
            return await renew(self._tokens, pod, self._objects.token, now_s)
        except (ApiError, EnvironmentFault, OSError) as error:
            log.warning("pod %s/%s: its token was not renewed: %s", self._record.namespace, self._record.name, error)
            return now_s + _RENEW_AGAIN_S

    def remove(self) -> None:
        volumes.remove(self._root)
