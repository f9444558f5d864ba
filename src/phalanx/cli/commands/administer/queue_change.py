"""Change one queue, or preview which jobs the change would stop, and which jobs would start earlier.

`phalanx queue` builds the change. `carry_out` checks the change. Then it makes the change or, with --dry-run, simulates
the cluster with and without the change."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from phalanx.cli.cluster.live_state.look import look
from phalanx.cli.cluster.target import Target, find_ledger_of
from phalanx.cli.files.manifest import Document
from phalanx.cli.study.changes import Changes, altered, seconds
from phalanx.cli.study.future import expected_starts, played
from phalanx.cli.study.outlook import WhatIfOutlook, assumptions, effects, effects_record, lines
from phalanx.cli.submission.queue_spec import differences, require_valid, tree_faults
from phalanx.cli.terminal.output import note, print_json
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import FLAVORS, QUEUES

DRAINING = "draining"
TRIES = 5  # the maximum number of attempts to write a queue whose status changes at the same time


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The options of a preview of the change."""

    dry_run: bool = False
    """Change nothing; show which jobs the change stops, and which start earlier or later."""

    horizon: Annotated[str, Parameter(name="--for")] = "7d"
    """With --dry-run: the length of the forecast."""

    assume_run: str = "1h"
    """With --dry-run: the assumed run time of a job without a time limit."""

    json: bool = False
    """Print JSON: queue, action, changes; with --dry-run also stopped, earlier, later, never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChange:
    """A change of one queue. `before`, `after`: the Queue object before and after the change; None if it does not
    exist."""

    name: str
    action: str
    before: Object | None
    after: Object | None

    @property
    def fields(self) -> list[str]:
        return differences(*((each or {}).get("spec") or {} for each in (self.before, self.after)))


async def carry_out(connection: Connection, change: QueueChange, dry: DryRun | None, target: Target | None) -> None:
    """Make the change or, with --dry-run, show its effects."""
    dry = dry or DryRun()
    if change.after is not None:
        require_valid(change.name, change.after["spec"])
        for fault in await _faults(connection, change):
            note(f"phalanx: warning: {fault}")
    found: dict[str, Any] = {"queue": change.name, "action": change.action, "changes": change.fields}
    if dry.dry_run:
        outlook = await _outlook(connection, change, dry, target)
        found |= effects_record(effects(outlook))
    else:
        await _write(connection, change)
    if dry.json:
        print_json(found)
        return
    verb = "would be " if dry.dry_run else "is " if change.action == DRAINING else ""
    print(f"queue {change.name} {verb}{change.action}")
    if change.before is not None and change.after is not None:
        print("\n".join(f"  {each}" for each in change.fields))
    if dry.dry_run:
        print("\n".join(lines(effects(outlook), outlook)))
        for text in assumptions(outlook):
            note(text)
        note("Nothing was changed.")


async def _outlook(connection: Connection, change: QueueChange, dry: DryRun, target: Target | None) -> WhatIfOutlook:
    horizon_s, run_s = seconds("--for", dry.horizon), seconds("--assume-run", dry.assume_run)
    sight = await look(connection, ledger=find_ledger_of(target, os.environ))
    documents = [] if change.after is None else [Document(file=f"queue {change.name}", obj=change.after)]
    gone = Changes(delete=(f"queue/{change.name}",)) if change.after is None else Changes()
    after, remarks = altered(sight.cluster, sight.objects, documents, gone, None, "default")
    for remark in remarks:
        note(remark)
    return WhatIfOutlook(
        before=played(sight.cluster.copy(), horizon_s, run_s),
        after=played(after.copy(), horizon_s, run_s),
        now_s=sight.now_s,
        horizon_s=horizon_s,
        run_s=run_s,
        expected=expected_starts(after, sight.now_s),
    )


async def _write(connection: Connection, change: QueueChange) -> None:
    try:
        if change.after is None and change.before is not None:
            body = {"preconditions": {"uid": change.before["metadata"]["uid"]}}
            await connection.delete(QUEUES, change.name, body=body)
        elif change.after is not None and change.before is None:
            await connection.create(QUEUES, change.after)
        elif change.after is not None and change.before is not None:
            await _replace(connection, change.before, change.after)
    except ApiRefusal as error:
        again = " Another user changed the queue at the same time: try again." if error.code == 409 else ""
        raise PhalanxError(f"queue {change.name} was not {change.action}: {error.message}.{again}") from error


async def _replace(connection: Connection, before: Object, after: Object) -> None:
    """Replace the queue. The scheduler may write the status of the queue after this command has read the queue. If only
    the status has changed since then, try again. Raises ApiRefusal."""
    for left in reversed(range(TRIES)):
        try:
            await connection.replace(QUEUES, after)
            return
        except ApiRefusal as error:
            if error.code != 409 or not left:
                raise
            now = await connection.get(QUEUES, after["metadata"]["name"])
            if now.get("spec") != before.get("spec"):
                raise
            metadata = {**after["metadata"], "resourceVersion": now["metadata"]["resourceVersion"]}
            after = {**after, "metadata": metadata, "status": now.get("status", {})}


async def list_queues(connection: Connection) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in (await connection.list(QUEUES))["items"]}


async def _faults(connection: Connection, change: QueueChange) -> list[str]:
    """Return the reasons why the queue would not start jobs after the change."""
    objects = {**await list_queues(connection), change.name: change.after}
    flavors = (await connection.list(FLAVORS))["items"]
    return tree_faults(change.name, [obj or {} for obj in objects.values()], flavors)
