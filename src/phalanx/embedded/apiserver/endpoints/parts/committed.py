"""The read access of admission plug-ins to the stored objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH as APPLY_PATCH
from phalanx.embedded.apiserver.admission import chain
from phalanx.embedded.apiserver.admission.resource_quota import HeldQuota
from phalanx.embedded.apiserver.storage.store import Store, encode


class Committed:
    """Gives admission plug-ins read access to the stored objects (`chain.Reader`)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[Object] = []
        self._counted: list[tuple[str, Resource, Object]] = []

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        found = self._store.get((group, plural), namespace, name)
        return found.obj if found is not None else None

    def list(self, group: str, plural: str, namespace: str = "") -> Iterator[Object]:
        return (one.obj for one in self._store.scan((group, plural), namespace or None))

    def decided(self, group: str, plural: str, namespace: str = "") -> Iterator[Object]:
        return (one.obj for one in self._store.decided((group, plural), namespace or None))

    def addressed(self) -> Iterator[Object]:
        yield from self.decided(*chain.SERVICES)
        yield from self._waiting

    @contextmanager
    def keeping_addresses(self, resource: Resource, obj: Object) -> Iterator[None]:
        """Reserve the addresses of `obj`, if it is a service, while this context is open: no other service gets them
        while webhooks are asked about `obj`."""
        kept = [obj] if resource.key == chain.SERVICES else []
        self._waiting += kept
        try:
            yield
        finally:
            self._waiting = [one for one in self._waiting if one is not obj]

    @contextmanager
    def counting(self, namespace: str, resource: Resource, obj: Object) -> Iterator[None]:
        """Count `obj` for quotas while this context is open. The object is not stored yet, because the server stores it
        in one commit with a second object."""
        counted = (namespace, resource, obj)
        self._counted.append(counted)
        try:
            yield
        finally:
            self._counted.remove(counted)

    def held(self, namespace: str) -> HeldQuota:
        tally = self._store.tally
        objects, size_bytes = tally.objects(namespace), tally.size_bytes(namespace)
        for _, resource, obj in [one for one in self._counted if one[0] == namespace]:
            objects, size_bytes = objects + Counter([resource.key]), size_bytes + len(encode(obj))
        return HeldQuota(objects=objects, size_bytes=size_bytes)
