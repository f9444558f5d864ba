"""Create the objects that a controller makes for its own object."""

from __future__ import annotations

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.pod_state import controller_of, uid_of


def is_controlled_by(obj: Object, owner: Object) -> bool:
    above = controller_of(obj)
    return above is not None and above["uid"] == uid_of(owner)


async def create_owned(calls: Calls, kind: Kind, body: Object, owner: Object) -> tuple[Object, bool]:
    """Create an object in the namespace of its owner. Return (object, True), or (the one that the owner has by that
    name, False), so that a step may be repeated.

    Raises ApiError if the server refuses the object, and ApiRefusal with the reason AlreadyExists if somebody else's
    object has the name."""
    name, namespace = body["metadata"]["name"], owner["metadata"]["namespace"]
    try:
        return await calls.create(kind, body, namespace), True
    except ApiRefusal as refusal:
        if refusal.reason != "AlreadyExists":
            raise
        there = await calls.get(kind, name, namespace)
        if not is_controlled_by(there, owner):
            raise
        return there, False
