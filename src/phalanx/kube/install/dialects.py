"""What a dialect brings to a cluster: its CustomResourceDefinitions and its admission policies.

Definitions are made where they are absent and never changed: those that the other scheduler's own installation brought
are as good. Policies, and objects that its installation brings (default queues), are made where they are absent, once
its kinds are served. A definition that is there and does not serve the version that is read, of an older or a newer
installation, is left as it is too: the dialect stays off, and everything else goes on.
"""

from __future__ import annotations

import logging
from importlib import resources
from typing import Any

import msgspec

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CRDS, Kind
from phalanx.dialects.frame.dialect import Dialect
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import create, find, served

log = logging.getLogger(__name__)


class VersionNotServed(PhalanxError):
    """The cluster's definition of a kind has no version that is read; the text says which it has, and what to do."""


async def install_dialect(api: Connection, dialect: Dialect[Any]) -> None:
    """Returns when its kinds are served. Who may not write definitions goes on with those that are there. Raises
    VersionNotServed."""
    there: dict[tuple[str, str], Object | None] = {}
    for body in crds_of(dialect):
        there[body["spec"]["group"], body["spec"]["names"]["plural"]] = await _make(api, CRDS, body)
    for kind in (*dialect.definition_kinds, *dialect.answer_kinds):
        if (kind.group, kind.plural) in there:  # kinds of others are looked at where they are served
            if (definition := there[kind.group, kind.plural]) is not None:
                _check_version(dialect, kind, definition)
            await served(api, kind)
    for kind, body in dialect.policies:
        await _make(api, kind, body)


def crds_of(dialect: Dialect[Any]) -> list[Object]:
    """Return the CustomResourceDefinitions that a dialect brings."""
    if not dialect.crds:
        return []
    text = resources.files("phalanx.dialects").joinpath(dialect.crds).read_bytes()
    return msgspec.json.decode(text, type=list[dict[str, Any]])


def _check_version(dialect: Dialect[Any], kind: Kind, definition: Object) -> None:
    """Raises VersionNotServed."""
    versions = [one["name"] for one in definition["spec"]["versions"] if one.get("served")]
    if kind.version not in versions:
        name, what = definition["metadata"]["name"], ", ".join(versions) or "no version"
        raise VersionNotServed(
            f"the CustomResourceDefinition {name} serves {what}, and the dialect {dialect.name} reads {kind.version}: "
            "its queues and jobs are left alone. Install the definitions of a release that serves "
            f"{kind.version}, and start this scheduler again"
        )


async def _make(api: Connection, kind: Kind, body: Object) -> Object | None:
    """Return what was there before."""
    name, found = body["metadata"]["name"], None
    try:
        if (found := await find(api, kind, name)) is None:
            await create(api, kind, body)
    except ApiRefusal as error:
        if error.code not in (403, 404):
            raise
        log.warning("%s %s is not there and cannot be made: %s", kind.name, name, error)
    return found
