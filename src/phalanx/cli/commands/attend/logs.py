"""`phalanx logs JOB`: show the output of a job, also after its pods are deleted."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, pods_of
from phalanx.cli.cluster.jobs.output import (
    ContainerLog,
    Followed,
    Line,
    LogWishes,
    attempts,
    before,
    follow_lines,
    kept_sources,
    read_lines,
    sources_of,
)
from phalanx.cli.cluster.jobs.standing import OVER, Standing, state_of
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.moments import past_moment
from phalanx.cli.terminal.output import note, print_json_line
from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.moment import write_moment
from phalanx.clusters.workers.reach import reached
from phalanx.errors import PhalanxError

_COLORS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # ANSI color codes for the labels of pods
_AGAIN_S = 0.5
_TRIES = 20
_SHOWN = 10
Write = Callable[[Line], None]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """The options that select lines of output, and their format."""

    since: str = ""
    """Only lines since this time: 10m or 2h (ago), or 18:00, 2026-01-31, 2026-01-31T18:00 (in the time zone of this
    machine)."""

    tail: Annotated[int | None, Parameter(validator=Number(gte=0))] = None
    """Only this number of last lines of each container."""

    container: Annotated[str, Parameter(alias="-c")] = ""
    """Only the container with this name. [default: all containers except init containers]"""

    timestamps: bool = False
    """Show the time at which each line was written, in UTC."""

    json: bool = False
    """Print a line of JSON for each line of output: time, namespace, pod, container, label, text."""

    def wishes(self) -> LogWishes:
        """Return --since and --tail in the form that the API of pod logs needs. Raises PhalanxError for an invalid
        time."""
        since = write_moment(past_moment("--since", self.since, time.time())) if self.since else ""
        return LogWishes(tail=self.tail, since=since)


async def logs(
    job: str,
    /,
    *,
    follow: Annotated[bool, Parameter(alias="-f")] = False,
    previous: bool = False,
    lines: LineOptions | None = None,
    target: Target | None = None,
    space: Namespace | None = None,
) -> None:
    """Show the output of a job. The lines of all its pods are sorted by time, and each line has the index or name of
    its pod.

    On one machine (`phalanx up`) the output is kept after the Job and its pods are deleted. On other clusters the
    output is deleted with the pods; docs/guide/command-line.md describes how to keep it.

    For example:

        phalanx logs train
        phalanx logs train -f
        phalanx logs train/3 --tail 100
        phalanx logs sweep/7 --since 10m
        phalanx logs train --previous

    Parameters
    ----------
    job
        The job: NAME, NAMESPACE/NAME or KIND/NAME; JOB/INDEX or JOB/ROLE for some of its pods; ARRAY/INDEX; a job
        number of Slurm.
    follow
        Keep showing new lines until the job has ended.
    previous
        Show the attempt before the last one, of a job that was preempted or of a container that was started again.
    """
    namespace, lines = (space or Namespace()).namespace, lines or LineOptions()
    lines.wishes()  # raises PhalanxError for an invalid time before any log is read
    async with connected(target) as connection:
        found = await Finder(connection, namespace, find_ledger_of(target, os.environ)).one(job)
        async with reached(connection, [member.obj for member in found.members]) as there:
            if there is not connection:
                found = await Finder(there, namespace).one(str(found))
            await _show(there, found, lines, follow=follow, previous=previous)


async def _show(connection: Connection, found: FoundJob, lines: LineOptions, *, follow: bool, previous: bool) -> None:
    """Show the output of a job. `connection`: a connection to the cluster with the job's pods."""
    over = not found.members or state_of(found) in OVER
    if follow and not over:
        if previous:
            raise PhalanxError("--previous shows an attempt that is over, so --follow has nothing to wait for.")
        await follow_output(connection, found, lines)
        return
    sources = await log_sources(connection, found, lines.container, previous)
    if not sources:
        raise PhalanxError(await _nothing(connection, found, previous, over))
    write, wishes = _writer(_labelled(sources), lines), lines.wishes()
    async for line in read_lines(connection, sources, wishes):
        write(line)


async def log_sources(connection: Connection, found: FoundJob, container: str, previous: bool) -> list[ContainerLog]:
    """Return the logs of the job's last attempt or, with `previous`, of the attempt before the last one."""
    live = sources_of(await pods_of(connection, found), found, container) if found.members else []
    uids = {source.uid for source in live}
    kept = [source for source in await kept_sources(connection, found, container) if source.uid not in uids]
    tries = attempts([*live, *kept], single=_is_single(found))
    if not previous:
        return tries[-1] if tries and _is_single(found) else _latest(tries)
    if len(tries) > 1:
        return tries[-2]
    again = [before(source) for source in tries[0]] if tries else []
    return [source for source in again if await _has(connection, source)]


def _latest(tries: Sequence[Sequence[ContainerLog]]) -> list[ContainerLog]:
    """Return the logs of the last attempt of each pod. The pods of a job may have different numbers of attempts if only
    some pods were replaced."""
    found = {(source.label, source.container): source for attempt in tries for source in attempt}
    return list(found.values())


def _is_single(found: FoundJob) -> bool:
    """Return True if the job has a single pod at a time. Each attempt of the job is a pod with another name."""
    if found.entry is not None:
        return found.entry.pods == 1
    if len(found.members) != 1 or found.kind != "job":
        return False
    spec = found.members[0].obj["spec"]
    return (spec.get("completions") or 1) == 1 == (spec.get("parallelism") or 1)


async def _has(connection: Connection, source: ContainerLog) -> bool:
    async for _ in read_lines(connection, [source], LogWishes(tail=1)):
        return True
    return False


async def _nothing(connection: Connection, found: FoundJob, previous: bool, over: bool) -> str:
    """Return the message that explains why the job has no output."""
    if found.part:
        whole = replace(found, part="")
        known = sorted(
            {one.label for one in await log_sources(connection, whole, "", False)}, key=lambda text: (len(text), text)
        )
        if known:
            return f"{whole} has no pod {found.part} with output. Pods with output: {', '.join(known[:_SHOWN])}."
    if previous:
        return f"{found} has no earlier attempt whose output is kept."
    if found.members and not over:
        return f"{found} is {state_of(found)} and has no output yet. `phalanx logs -f {found}` waits for it."
    return (
        f"the pods of {found} were deleted with their output: nothing in this cluster keeps it. Let a log "
        "collector such as Loki read the output while pods run, or let the job write into files "
        "(docs/guide/command-line.md)."
    )


# --- lines ----------------------------------------------------------------------------------------------------------


def _labelled(sources: Sequence[ContainerLog]) -> bool:
    return len({(source.uid, source.container) for source in sources}) > 1


def _writer(labelled: bool, lines: LineOptions) -> Write:
    """Return a function that prints a line of output. On a terminal the labels of pods are coloured."""
    colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    colors: dict[str, int] = {}

    def write(line: Line) -> None:
        stamp, source, text = line
        if lines.json:
            place = {"time": stamp, "namespace": source.namespace, "pod": source.pod}
            print_json_line({**place, "container": source.container, "label": source.label, "text": text})
            return
        label = f"[{source.label}] " if labelled else ""
        if label and colored:
            color = colors.setdefault(source.label, _COLORS[len(colors) % len(_COLORS)])
            label = f"\x1b[{color}m{label}\x1b[0m"
        sys.stdout.write(f"{label}{f'{stamp} ' if lines.timestamps else ''}{text}\n")

    return write


# --- follow ---------------------------------------------------------------------------------------------------------


async def follow_output(connection: Connection, found: FoundJob, lines: LineOptions) -> Standing:
    """Show the lines of all pods as soon as they are written, until the job has ended. Pods that start later are
    included. Return the final state of the job."""
    followed: dict[tuple[str, str], asyncio.Task[None]] = {}
    single = _is_single(found)
    write, wishes = _writer(not single, lines), lines.wishes()
    said = ""
    async with Followed(connection, found) as job:
        try:
            while True:
                standing = job.standing
                for source in sources_of(job.pods.values(), found, lines.container):
                    key = (source.uid, source.container)
                    if key not in followed and _has_started(job.pods[source.uid], source.container):
                        followed[key] = asyncio.create_task(_copy(connection, source, wishes, write))
                if standing.over:
                    await asyncio.gather(*followed.values())
                    return standing
                if standing.why and standing.why != said:
                    said = standing.why
                    note(f"phalanx: waiting: {said}")
                await job.change()
        finally:
            for task in followed.values():
                task.cancel()


def _has_started(pod: dict[str, object], container: str) -> bool:
    status = pod.get("status")
    statuses = status.get("containerStatuses") or () if isinstance(status, dict) else ()
    return any(one["name"] == container and {"running", "terminated"} & set(one.get("state") or ()) for one in statuses)


async def _copy(connection: Connection, source: ContainerLog, wishes: LogWishes, write: Write) -> None:
    """Write the lines of one container until it ends. If the connection breaks, connect again and continue at the same
    line."""
    last, shown = "", 0  # the time of the last line, and the number of lines with this time that were written
    for _ in range(_TRIES):
        again = shown
        try:
            async for line in follow_lines(connection, source, wishes):
                if line[0] < last or (line[0] == last and again):
                    again -= line[0] == last
                    continue
                write(line)
                sys.stdout.flush()
                last, shown, again = line[0], shown + 1 if line[0] == last else 1, 0
            return
        except ApiRefusal:
            raise
        except ApiError:
            wishes = replace(wishes, since=last, tail=None) if last else wishes
            await asyncio.sleep(_AGAIN_S)
