"""Render objects as Tables, which kubectl requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from phalanx.embedded.apimachinery.meta.resource import Resource, converted
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH as APPLY_PATCH
from phalanx.embedded.apiserver.storage.store import Stored, encode
from phalanx.embedded.apiserver.transport.tables import table


def table_row(
    resource: Resource, include: str, *, version: str = "v1", headers: bool = True
) -> Callable[[Stored], bytes]:
    """Return a function that renders an object as a Table with one row. Watches use it."""

    def render(stored: Stored) -> bytes:
        meta = {"resourceVersion": str(stored.version)}
        shown, now_s = [converted(resource, stored.obj)], time.time()
        found = table.as_table(resource, shown, include, now_s=now_s, metadata=meta, version=version)
        return encode(found if headers else found | {"columnDefinitions": None})

    return render


def table_list(
    resource: Resource, found: Sequence[Stored], meta: Mapping[str, object], include: str, version: str
) -> bytes:
    """Return a Table with one row for each object."""
    objects = [converted(resource, one.obj) for one in found]
    return encode(table.as_table(resource, objects, include, now_s=time.time(), metadata=meta, version=version))
