"""Install a dialect's CustomResourceDefinitions and admission policies.

Missing definitions are created. Definitions of the other scheduler's own installation are equally good, and are never
changed. Phalanx's definitions have their source and digest in annotations, and are updated if they are from another
release of Phalanx. Phalanx's policies are updated likewise, once the kinds are served. Default objects (queues) belong
to the users as soon as they exist. A definition that does not serve the version that Phalanx reads is not changed
either: this dialect stays off, and the others work.
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
from phalanx.kube.install.definitions import DIGEST, create, digested, find, served
from phalanx.kube.read.labels import FIELD_MANAGER

log = logging.getLogger(__name__)

MADE_FROM = "phalanx.dev/made-from"  # annotation of Phalanx's definitions: the other scheduler, and its release
_POLICIES = "admissionregistration.k8s.io"


class VersionNotServed(PhalanxError):
    """The cluster's definition of a kind has no version that Phalanx reads. The text names its versions, and what to
    do."""


async def install_dialect(api: Connection, dialect: Dialect[Any]) -> None:
    """Install the dialect, and return when its kinds are served. Without the right to write definitions, use the
    existing ones. Raises VersionNotServed."""
    there: dict[tuple[str, str], Object | None] = {}
    for body in crds_of(dialect):
        there[body["spec"]["group"], body["spec"]["names"]["plural"]] = await _bring(api, CRDS, body)
    for kind in (*dialect.definition_kinds, *dialect.answer_kinds):
        if (kind.group, kind.plural) in there:  # other kinds are read only if the server has them
            if (definition := there[kind.group, kind.plural]) is not None:
                _check_version(dialect, kind, definition)
            await served(api, kind)
    for kind, body in policies_of(dialect):
        await _bring(api, kind, body)


def crds_of(dialect: Dialect[Any]) -> list[Object]:
    """Return the CustomResourceDefinitions that a dialect brings."""
    if not dialect.crds:
        return []
    text = resources.files("phalanx.dialects").joinpath(dialect.crds).read_bytes()
    return [digested(body) for body in msgspec.json.decode(text, type=list[dict[str, Any]])]


def policies_of(dialect: Dialect[Any]) -> list[tuple[Kind, Object]]:
    """Return the admission policies and the default objects that a dialect installs."""
    return [(kind, digested(body) if kind.group == _POLICIES else body) for kind, body in dialect.policies]


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


async def _bring(api: Connection, kind: Kind, body: Object) -> Object | None:
    """Create the object, or update Phalanx's object of another release. Return the object that existed before, in its
    present state; None if it was created."""
    name, found = body["metadata"]["name"], None
    try:
        if (found := await find(api, kind, name)) is None:
            await create(api, kind, body)
        elif _is_of_another_release(kind, found, body):
            digest = {DIGEST: body["metadata"]["annotations"][DIGEST]}
            patch = {"metadata": {"annotations": digest}, "spec": body["spec"]}
            found = await api.patch(kind, name, patch, fieldManager=FIELD_MANAGER)
            log.info("%s %s was brought up to date", kind.name, name)
    except ApiRefusal as error:
        if error.code not in (403, 404, 422):  # 422: objects are stored in a version that no longer exists
            raise
        state = "is not there and cannot be made" if found is None else "stays as another release made it"
        log.warning("%s %s %s: %s", kind.name, name, state, error)
    return found


def _is_of_another_release(kind: Kind, there: Object, body: Object) -> bool:
    """Return whether another release of Phalanx created the existing object."""
    digest = (body["metadata"].get("annotations") or {}).get(DIGEST)
    said = there["metadata"].get("annotations") or {}
    ours = MADE_FROM in said if kind == CRDS else digest is not None
    return ours and said.get(DIGEST) != digest
