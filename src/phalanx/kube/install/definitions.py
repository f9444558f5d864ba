"""Install and update the CustomResourceDefinitions of Phalanx's kinds.

An existing definition is patched if it differs from the definition of this release, for example because an older
release has written it. An annotation contains the digest of the definition, so that a single read shows whether the
definition is up to date. If the scheduler has no right to write definitions, it uses the existing definitions.

The module also installs the CustomResourceDefinitions and admission policies of a dialect (the part of Phalanx that
reads another scheduler's objects).

Missing definitions are created. If the other scheduler's own installation has created a definition, Phalanx uses it and
never changes it. Definitions that Phalanx creates get annotations with their source and digest. If the digest shows
that another release of Phalanx has written a definition, the definition is updated. The dialect's admission policies
are updated in the same way, after its kinds are served. Default objects (queues) are created once and never changed,
because they belong to the users. If the other scheduler's definition does not serve the version that Phalanx reads, the
dialect stays disabled; other dialects are not affected.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CRDS, Kind
from phalanx.dialects.frame.dialect import Dialect
from phalanx.errors import PhalanxError
from phalanx.kube.install.queue_schema import COLUMNS, QUEUE, flag, names, obj, rule
from phalanx.kube.read.labels import FIELD_MANAGER

log = logging.getLogger(__name__)

QUEUES = Kind(group="phalanx.dev", plural="queues", name="Queue", namespaced=False)
FLAVORS = Kind(group="phalanx.dev", plural="flavors", name="Flavor", namespaced=False)
RESERVATIONS = Kind(group="phalanx.dev", plural="reservations", name="Reservation", namespaced=False)
DEFAULT_QUEUE = "default"
DIGEST = "phalanx.dev/definition"  # annotation: the digest of the definition that Phalanx wrote

_TEXT = {"type": "string", "maxLength": 253}
_TOLERATION = obj(
    {
        "key": {**_TEXT, "description": "The key of the taint; empty, with Exists: every taint."},
        "operator": {"type": "string", "enum": ["Equal", "Exists"], "description": "Default Equal."},
        "value": {**_TEXT, "description": "The taint's value, for Equal."},
        "effect": {
            "type": "string",
            "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
            "description": "The effect of the taint; not set: every effect.",
        },
    },
    "A toleration, as in the spec of a pod.",
    rule(
        "has(self.key) && self.key != '' || has(self.operator) && self.operator == 'Exists'",
        "without a key (every taint is tolerated), the operator must be Exists",
    ),
)
FLAVOR: Object = {
    "type": "object",
    "description": "A named class of nodes, for which queues can have separate quotas.",
    "properties": {
        "spec": obj(
            {
                "labels": {
                    "type": "object",
                    "description": "The labels that all nodes of the flavor have.",
                    "maxProperties": 32,
                    "additionalProperties": _TEXT,
                },
                "tolerations": {
                    "type": "array",
                    "description": "Further tolerations of pods that get the flavor.",
                    "maxItems": 32,
                    "items": _TOLERATION,
                },
            },
            "The nodes of the flavor, and the tolerations that pods need on them.",
        )
    },
}
RESERVATION: Object = {
    "type": "object",
    "description": "An advance reservation of nodes for a time: for certain jobs, or for none (maintenance).",
    "properties": {
        "spec": obj(
            {
                "start": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Begin of the reservation; RFC 3339.",
                },
                "end": {"type": "string", "format": "date-time", "description": "End of the reservation; RFC 3339."},
                "nodes": {**names("The names of the reserved nodes."), "minItems": 1},
                "users": names("The users whose jobs may run on the nodes (annotation phalanx.dev/user)."),
                "groups": names("The groups whose jobs may run on the nodes (label phalanx.dev/group)."),
                "queues": names("The queues whose jobs may run on the nodes, including the queues below them."),
                "magnetic": flag("These jobs do not need the annotation phalanx.dev/reservation to use the nodes."),
            },
            "Without users, groups and queues, no job may run on the nodes (maintenance).",
            rule("timestamp(self.start) < timestamp(self.end)", "the end of a reservation must be after its start"),
            required=("start", "end", "nodes"),
        )
    },
    "required": ["spec"],
}


def definition(kind: Kind, short: str, schema: Object, columns: list[object], *, status: bool = False) -> Object:
    """Return the CustomResourceDefinition of a kind of Phalanx."""
    name = f"{kind.plural}.{kind.group}"
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
        **({"subresources": {"status": {}}} if status else {}),
    }
    spec = {
        "group": kind.group,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "names": {
            "plural": kind.plural,
            "singular": kind.name.lower(),
            "kind": kind.name,
            "listKind": f"{kind.name}List",
            "shortNames": [short],
        },
        "versions": [version],
    }
    return digested({"apiVersion": CRDS.api_version, "kind": CRDS.name, "metadata": {"name": name}, "spec": spec})


def digested(body: Object) -> Object:
    """Return the object with an annotation that contains the digest of its spec. By this digest, a later release of
    Phalanx recognizes that an older release has written the object."""
    digest = hashlib.sha256(msgspec.json.encode(body["spec"], order="deterministic")).hexdigest()[:16]
    meta = body["metadata"]
    return {**body, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), DIGEST: digest}}}


def _column(name: str, path: str, kind: str = "string") -> Object:
    return {"name": name, "type": kind, "jsonPath": path}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
DEFINITIONS: Mapping[Kind, Object] = {
    QUEUES: definition(QUEUES, "q", QUEUE, COLUMNS, status=True),
    FLAVORS: definition(FLAVORS, "fl", FLAVOR, [_column("Labels", ".spec.labels"), _AGE]),
    RESERVATIONS: definition(
        RESERVATIONS,
        "rsv",
        RESERVATION,
        [_column("Start", ".spec.start"), _column("End", ".spec.end"), _column("Nodes", ".spec.nodes"), _AGE],
    ),
}


async def install(api: Connection) -> None:
    """Create or update Phalanx's CustomResourceDefinitions, and create the queue `default`. Return when all kinds are
    served."""
    await asyncio.gather(*(_install_definition(api, body) for body in DEFINITIONS.values()))
    await asyncio.gather(served(api, FLAVORS), served(api, RESERVATIONS), _create_default(api))


async def _install_definition(api: Connection, body: Object) -> None:
    """Install a definition unless it is up to date. If deploy/ has installed the definition, this function only reads
    it, so the scheduler needs no right to write definitions."""
    meta = body["metadata"]
    try:
        existing = await find(api, CRDS, meta["name"])
        if existing is None:
            await create(api, CRDS, body)
        elif (existing["metadata"].get("annotations") or {}).get(DIGEST) != meta["annotations"][DIGEST]:
            patch = {"metadata": {"annotations": meta["annotations"]}, "spec": body["spec"]}
            await api.patch(CRDS, meta["name"], patch, fieldManager=FIELD_MANAGER)
            log.info("the definition %s was brought up to date", meta["name"])
    except ApiRefusal as error:
        if error.code != 403:
            raise
        log.warning("the definition %s stays as it is: %s", meta["name"], error)


async def find(api: Connection, kind: Kind, name: str) -> Object | None:
    """Return the object, or None if there is none."""
    try:
        return await api.get(kind, name)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        return None


async def served(api: Connection, kind: Kind) -> None:
    """Wait until the kind is served: the API server establishes a definition shortly after its creation."""
    for pause_s in (*(0.05,) * 20, *(0.5,) * 20, 0.0):
        try:
            await api.list(kind, limit="1")
            return
        except ApiRefusal as error:
            if error.code != 404 or not pause_s:
                raise
        await asyncio.sleep(pause_s)


async def _create_default(api: Connection) -> None:
    default = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.name,
        "metadata": {"name": DEFAULT_QUEUE},
        "spec": {"gang": True},
    }
    await served(api, QUEUES)
    if await find(api, QUEUES, DEFAULT_QUEUE) is None:
        await create(api, QUEUES, default)


async def create(api: Connection, kind: Kind, body: Object) -> None:
    """Create the object. If another client has already created it, do nothing."""
    try:
        await api.create(kind, body)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise


MADE_FROM = "phalanx.dev/made-from"  # annotation of a dialect's definition: the scheduler and its release
_POLICIES = "admissionregistration.k8s.io"


class VersionNotServed(PhalanxError):
    """An error: the cluster's definition of a kind has no version that Phalanx reads. The text contains the versions of
    the definition, and what the user can do."""


async def install_dialect(api: Connection, dialect: Dialect[Any]) -> None:
    """Install the dialect, and return when its kinds are served. Without the right to write definitions, use the
    existing definitions. Raises VersionNotServed."""
    existing: dict[tuple[str, str], Object | None] = {}
    for body in crds_of(dialect):
        existing[body["spec"]["group"], body["spec"]["names"]["plural"]] = await _bring(api, CRDS, body)
    for kind in (*dialect.definition_kinds, *dialect.answer_kinds):
        if (kind.group, kind.plural) in existing:  # the other kinds are optional
            if (definition := existing[kind.group, kind.plural]) is not None:
                _check_version(dialect, kind, definition)
            await served(api, kind)
    for kind, body in policies_of(dialect):
        await _bring(api, kind, body)


def crds_of(dialect: Dialect[Any]) -> list[Object]:
    """Return the CustomResourceDefinitions that a dialect installs."""
    if not dialect.crds:
        return []
    text = resources.files("phalanx.dialects").joinpath(dialect.crds).read_bytes()
    return [digested(body) for body in msgspec.json.decode(text, type=list[dict[str, Any]])]


def policies_of(dialect: Dialect[Any]) -> list[tuple[Kind, Object]]:
    """Return the admission policies and the default objects that a dialect installs."""
    return [(kind, digested(body) if kind.group == _POLICIES else body) for kind, body in dialect.policies]


def _check_version(dialect: Dialect[Any], kind: Kind, definition: Object) -> None:
    """Raise VersionNotServed if the definition does not serve the version of the kind that the dialect reads."""
    versions = [one["name"] for one in definition["spec"]["versions"] if one.get("served")]
    if kind.version not in versions:
        name, what = definition["metadata"]["name"], ", ".join(versions) or "no version"
        raise VersionNotServed(
            f"the CustomResourceDefinition {name} serves {what}, but the dialect {dialect.name} reads "
            f"{kind.version}: its queues and jobs are ignored. Install the definitions of a release that serves "
            f"{kind.version}, and start this scheduler again"
        )


async def _bring(api: Connection, kind: Kind, body: Object) -> Object | None:
    """Create the object, or update it if another release of Phalanx has created it. Return the present object if it
    existed before the call; otherwise None."""
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
        if error.code not in (403, 404, 422):  # 422: the patch removes a version in which objects are stored
            raise
        state = "does not exist and cannot be created" if found is None else "stays as another release created it"
        log.warning("%s %s %s: %s", kind.name, name, state, error)
    return found


def _is_of_another_release(kind: Kind, existing: Object, body: Object) -> bool:
    """Return whether another release of Phalanx created the existing object."""
    digest = (body["metadata"].get("annotations") or {}).get(DIGEST)
    said = existing["metadata"].get("annotations") or {}
    by_phalanx = MADE_FROM in said if kind == CRDS else digest is not None
    return by_phalanx and said.get(DIGEST) != digest
