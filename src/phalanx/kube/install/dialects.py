"""What a dialect brings to a cluster: its CustomResourceDefinitions and its admission policies.

Definitions are made where they are absent and never changed: those that the other scheduler's own installation brought
are as good. Policies, and objects that its installation brings (default queues), are made where they are absent, once
its kinds are served.
"""

from __future__ import annotations

import logging
from importlib import resources
from typing import Any

import msgspec

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CRDS, Kind
from phalanx.dialects.frame import Dialect
from phalanx.kube.install.definitions import create, find, served

log = logging.getLogger(__name__)


async def install_dialect(api: Connection, dialect: Dialect[Any]) -> None:
    """Returns when its kinds are served. Who may not write definitions goes on with those that are there."""
    brought = crds_of(dialect)
    for body in brought:
        await _make(api, CRDS, body)
    own = {(body["spec"]["group"], body["spec"]["names"]["plural"]) for body in brought}
    for kind in (*dialect.definition_kinds, *dialect.answer_kinds):
        if (kind.group, kind.plural) in own:  # kinds of others are looked at where they are served
            await served(api, kind)
    for kind, body in dialect.policies:
        await _make(api, kind, body)


def crds_of(dialect: Dialect[Any]) -> list[Object]:
    """Return the CustomResourceDefinitions that a dialect brings."""
    if not dialect.crds:
        return []
    text = resources.files("phalanx.dialects").joinpath(dialect.crds).read_bytes()
    return msgspec.json.decode(text, type=list[dict[str, Any]])


async def _make(api: Connection, kind: Kind, body: Object) -> None:
    name = body["metadata"]["name"]
    try:
        if await find(api, kind, name) is None:
            await create(api, kind, body)
    except ApiRefusal as error:
        if error.code not in (403, 404):
            raise
        log.warning("%s %s is not there and cannot be made: %s", kind.name, name, error)
