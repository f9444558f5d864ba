"""Wait until the peers of a pod (the other pods of its job) have addresses. A program may look up its peers when it
starts."""

from __future__ import annotations

import time

from phalanx.client.connection import Object
from phalanx.embedded.node.network.naming import Naming

_MOST_S = 1.0  # the maximum wait, counted from the moment when the agent begins to manage the pod


class PeerWait:
    """The wait of one pod for the addresses of its peers. A wait that has ended never begins again."""

    AGAIN_S = 0.02  # the pause between two reads

    def __init__(self) -> None:
        self._until_s = time.monotonic() + _MOST_S
        self._is_over = False

    def must_wait(self, pod: Object, naming: Naming) -> bool:
        """Return True if the containers must not start yet."""
        if self._is_over or time.monotonic() >= self._until_s:
            return False
        self._is_over = naming.knows_peers(pod)
        return not self._is_over
