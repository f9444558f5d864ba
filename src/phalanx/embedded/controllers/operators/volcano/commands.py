"""Execute Commands (bus.volcano.sh/v1alpha1). A Command is a user's request for a single action on a Job or a Queue,
for example by `vcctl`.

The controller deletes a Command before it executes the Command, so the action happens at most once. Commands on queues
are accepted only in the namespace `default`, in which `vcctl` creates them. A queue belongs to the whole cluster, so
the owner of another namespace must not close it. For the actions CloseQueue and OpenQueue, the controller writes
`status.state` of the Queue, which the scheduler reads."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.operators.volcano.kinds import COMMANDS, COMPONENT, JOBS, POD_GROUPS, QUEUES
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

log = logging.getLogger(__name__)

_OF_QUEUES = "default"  # the namespace of Commands on queues
# A valid object name. Only strings of this form become a part of a URL path, because users write the names in Commands.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_BY_PARENT = "volcano.sh/closed-by-parent"


class CommandController(Reconciler):
    """The controller of Commands. `to_job`: a function that is called with the key of a job and the action that a
    Command requests."""

    kind, component, owns, reads = COMMANDS, COMPONENT, (), (QUEUES, POD_GROUPS)

    def __init__(self, context: ControllerContext, to_job: Callable[[str, str], None]) -> None:
        super().__init__(context)
        self._to_job = to_job
        self._queues, self._groups = self._calls.cache(QUEUES), self._calls.cache(POD_GROUPS)

    async def reconcile(self, command: Object) -> None:
        named, action = command.get("target") or {}, str(command.get("action") or "")
        name, space = str(named.get("name") or ""), command["metadata"]["namespace"]
        kind = QUEUES if named.get("kind") == QUEUES.name else JOBS
        target = await self._target(kind, name, "" if kind is QUEUES else space)
        try:
            await self._calls.delete(COMMANDS, command, policy="Background")
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return  # the Command was deleted or executed in the meantime
            raise
        if target is None:
            return
        if kind is QUEUES:
            if space == _OF_QUEUES:
                await self._operate(target, action)
            else:
                log.warning("a command on the queue %s in %s counts only in %s", name, space, _OF_QUEUES)
        else:  # as in Volcano, the uid in `target` is not compared, because users may write Commands by hand
            text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
            self.tell(target, "Normal", "CommandIssued", text)
            self._to_job(f"{space}/{name}", action)

    async def _target(self, kind: Kind, name: str, namespace: str) -> Object | None:
        """Return the object to which a command applies; None if it does not exist. It is read from the server, because
        an object that was created just before the command may not be in a cache yet."""
        try:
            return await self._calls.get(kind, name, namespace) if _NAME.fullmatch(name) else None
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return None
            raise

    async def _operate(self, queue: Object, action: str) -> None:
        name = queue["metadata"]["name"]
        if action == "CloseQueue" and name != "root":
            await self._close(queue, by_parent=False)
        elif action == "OpenQueue":
            above = self._queues.objects.get(str((queue.get("spec") or {}).get("parent") or ""))
            if above is not None and _state(above) in ("Closed", "Closing"):
                text = (
                    f"Open queue failed for its parent queue {above['metadata']['name']} is closed: open that one first"
                )
                self.tell(queue, "Warning", "OpenQueue", text)
                return
            await self._open(queue)
        else:
            text = f"{action} failed for queue {name}: there are OpenQueue and CloseQueue, and root stays open"
            self.tell(queue, "Warning", action or "Command", text)

    async def _close(self, queue: Object, *, by_parent: bool) -> None:
        name = queue["metadata"]["name"]
        if by_parent:
            await self._calls.patch(QUEUES, queue, {"metadata": {"annotations": {_BY_PARENT: "true"}}})
        state = "Closing" if any(_queue_of(one) == name for one in self._groups.objects.values()) else "Closed"
        await self._calls.patch(QUEUES, queue, {"status": {"state": state}}, subresource="status")
        self.tell(queue, "Normal", "CloseQueue", "Close queue succeed")
        for child in self._children(name):
            if _state(child) not in ("Closed", "Closing"):
                await self._close(child, by_parent=True)

    async def _open(self, queue: Object) -> None:
        name = queue["metadata"]["name"]
        if _BY_PARENT in (queue["metadata"].get("annotations") or {}):
            await self._calls.patch(QUEUES, queue, {"metadata": {"annotations": {_BY_PARENT: None}}})
        await self._calls.patch(QUEUES, queue, {"status": {"state": "Open"}}, subresource="status")
        self.tell(queue, "Normal", "OpenQueue", "Open queue succeed")
        for child in self._children(name):
            if _BY_PARENT in (child["metadata"].get("annotations") or {}):
                await self._open(child)

    def _children(self, name: str) -> list[Object]:
        """Return the queues whose parent is the queue `name`, without the queue itself."""
        found = [one for one in self._queues.objects.values() if (one.get("spec") or {}).get("parent") == name]
        return [one for one in found if one["metadata"]["name"] != name]


class QueueController(Reconciler):
    """The controller of closing queues. It changes the state of a queue from Closing to Closed when the queue has no
    PodGroup any more."""

    kind, component, owns, reads = QUEUES, COMPONENT, (), (POD_GROUPS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._groups = self._calls.cache(POD_GROUPS)
        self._groups.subscribe(self._group_changed)

    def _group_changed(self, change: Change) -> None:
        if change.new is None and change.old is not None:
            self.queue.add(_queue_of(change.old))

    async def reconcile(self, queue: Object) -> None:
        name, state = queue["metadata"]["name"], (queue.get("status") or {}).get("state")
        if state == "Closing" and not any(_queue_of(one) == name for one in self._groups.objects.values()):
            # The resourceVersion is a precondition, because another client may open the queue at the same time.
            seen = {"resourceVersion": queue["metadata"]["resourceVersion"]}
            body = {"metadata": seen, "status": {"state": "Closed"}}
            await self._calls.patch(QUEUES, queue, body, subresource="status")


def _state(queue: Mapping[str, Object]) -> str:
    return str((queue.get("status") or {}).get("state") or "Open")


def _queue_of(group: Object) -> str:
    return str((group.get("spec") or {}).get("queue") or "default")
