"""Install the definitions of the operators' job kinds, and of ProvisioningRequests, if they are missing.

`definitions.json` has the CustomResourceDefinitions of the projects without the schemas of pod templates.
`training.definition` adds these schemas. So the server accepts and refuses the same manifests as with the projects' own
definitions. An existing definition (such as one from an installation of the operator) is not changed.
"""

from __future__ import annotations

import asyncio
from importlib import resources
from typing import Any

import msgspec

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.kind import CRDS, Kind
from phalanx.embedded.controllers.operators.training.definition import definition, spelt_out


def definitions() -> list[Object]:
    """Return all definitions that `install_operators` installs."""
    text = resources.files(__package__ or "").joinpath("definitions.json").read_bytes()
    return [definition(), *map(_spelt_out, msgspec.json.decode(text, type=list[dict[str, Any]]))]


def _spelt_out(body: Object) -> Object:
    """Return the definition with the schemas of its pod templates. A spec is required, as most of the projects'
    webhooks require it. A JobSet without a spec gets an empty spec, because JobSet's webhook sets the fields."""
    for version in body["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"] = spelt_out(version["schema"]["openAPIV3Schema"])
        if body["spec"]["names"]["kind"] == "JobSet":
            schema["properties"]["spec"]["default"] = {}
        else:
            schema["required"] = sorted({"spec", *schema.get("required", ())})
    return body


async def install_operators(connection: Connection) -> None:
    """Install the definitions, and return when every kind is served. A request that the server does not answer is
    repeated. Raises ApiError."""
    await asyncio.gather(*(_install(connection, body) for body in definitions()))


async def _install(connection: Connection, body: Object) -> None:
    spec, defined = body["spec"], False
    names = spec["names"]
    kind = Kind(group=spec["group"], version=spec["versions"][0]["name"], plural=names["plural"], name=names["kind"])
    for pause_s in (*(0.05,) * 20, *(0.5,) * 20, 0.0):
        try:
            if not defined:
                defined = await _define(connection, body)
            await connection.list(kind, limit="1")
            return
        except ApiRefusal as error:
            if error.code != 404 or not pause_s:
                raise
        except ApiUnknown:
            if not pause_s:
                raise
        await asyncio.sleep(pause_s)


async def _define(connection: Connection, body: Object) -> bool:
    try:
        await connection.create(CRDS, body)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise
    return True
