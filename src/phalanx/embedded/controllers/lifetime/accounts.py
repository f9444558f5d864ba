"""Create the default objects of every namespace: the service account `default`, and the ConfigMap `kube-root-ca.crt`
with the certificate of the API's authority, with which pods verify the server.

Source: k8s.io/kubernetes/pkg/controller/serviceaccount and pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Kind
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.pod_state import is_deleting
from phalanx.embedded.controllers.runtime.work_queue import Retry, WorkQueue

DEFAULT, ROOT_CA = "default", "kube-root-ca.crt"


class AccountController:
    """Call `start`, then run `queue`. `root_ca`: the certificate (PEM) to publish; "": none is published."""

    def __init__(self, calls: Calls, root_ca: str, *, retry: Retry | None = None) -> None:
        self._calls, self._root_ca = calls, root_ca
        self._namespaces = calls.cache(NAMESPACES)
        self.queue = WorkQueue("service accounts", self._look, workers=4, retry=retry)

    def start(self) -> None:
        self._namespaces.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None and change.old is None and not is_deleting(change.new):
            self.queue.add(key_of(change.new))

    async def _look(self, name: str) -> None:
        if self._root_ca:
            await self._make(SERVICE_ACCOUNTS, DEFAULT, name)
            await self._make(CONFIG_MAPS, ROOT_CA, name, {"data": {"ca.crt": self._root_ca}})

    async def _make(self, kind: Kind, name: str, namespace: str, content: Object | None = None) -> None:
        """Create the object if it does not exist. An existing one stays, because an older certificate of the same
        authority is equally valid."""
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **(content or {})}
        try:
            await self._calls.create(kind, body, namespace)
        except ApiRefusal as error:
            if error.code not in (403, 404, 409):  # the namespace is going, or gone
                raise
