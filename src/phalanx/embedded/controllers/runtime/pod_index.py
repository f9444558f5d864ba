"""Index pods by their controller, so that the reconciliation of a Job reads only its own pods.

A Job may adopt a selected pod without a controller. Such pods are indexed by the label of generated selectors, and by
namespace for the few Jobs with their own selector.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.embedded.controllers.runtime.pod_state import controller_of

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_LEGACY_UID = "controller-uid"


class OwnerPodIndex:
    """The index is updated by `take`, which must be subscribed to the pods before any reader of the index."""

    def __init__(self) -> None:
        self._owned: dict[str, dict[str, Object]] = {}
        self._loose_of_label: dict[str, dict[str, Object]] = {}
        self._loose_in_namespace: dict[str, dict[str, Object]] = {}

    def owned_by(self, uid: str) -> list[Object]:
        """Return the pods whose controller has this uid, oldest known first."""
        return list(self._owned.get(uid, {}).values())

    def loose(self, job: Object) -> Iterable[Object]:
        """Return the pods without a controller that `job` might select."""
        if job["spec"].get("manualSelector"):
            return list(self._loose_in_namespace.get(job["metadata"]["namespace"], {}).values())
        return list(self._loose_of_label.get(job["metadata"]["uid"], {}).values())

    def take(self, change: Change) -> None:
        if change.old is not None:
            self._drop(change.old)
        if change.new is not None:
            self._put(change.new)

    def _put(self, pod: Object) -> None:
        for table, name in self._places(pod):
            table.setdefault(name, {})[key_of(pod)] = pod

    def _drop(self, pod: Object) -> None:
        for table, name in self._places(pod):
            members = table.get(name, {})
            members.pop(key_of(pod), None)
            if not members:
                table.pop(name, None)

    def _places(self, pod: Object) -> list[tuple[dict[str, dict[str, Object]], str]]:
        if (owner := controller_of(pod)) is not None:
            return [(self._owned, owner["uid"])]
        labels = pod["metadata"].get("labels") or {}
        wanted = labels.get(CONTROLLER_UID) or labels.get(_LEGACY_UID)
        places = [(self._loose_in_namespace, pod["metadata"]["namespace"])]
        return [*places, (self._loose_of_label, wanted)] if wanted else places
