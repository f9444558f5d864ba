"""Find the reasons why the target of a move cannot accept a job, and count the jobs that a dry run would move.

`phalanx move` passes `Obstacles.of` to `selection.choose`, which also finds the reasons in this cluster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from phalanx.cli.cluster.jobs.finding import FoundJob
from phalanx.cli.submission.moving.ends import Ends
from phalanx.cli.submission.moving.images import claims, runs_on_host
from phalanx.cli.submission.moving.portable import MoveTally, find
from phalanx.cli.submission.moving.selection import MoveChoice
from phalanx.cli.submission.moving.surroundings import is_system
from phalanx.cli.submission.moving.transfer import KINDS
from phalanx.client.kind import Kind
from phalanx.kube.read.labels import MOVED_FROM


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """The properties of the target. `has_image`: the user named an image for jobs with the image `host`. `missing`: the
    claims that the target lacks, as NAMESPACE/NAME. `kinds`: the kinds of jobs that the target serves."""

    has_image: bool
    missing: Collection[str]
    kinds: Collection[Kind]

    def of(self, job: FoundJob) -> str:
        """Return the reason why a waiting job cannot be moved; "" if it can be moved."""
        for member in job.members:
            if member.kind not in KINDS:
                return f"a {member.kind.name} of {member.kind.group} cannot be held: submit it again in the target"
            if member.kind not in self.kinds:
                return f"the target has no {member.kind.plural}.{member.kind.group}: install its operator in the target"
            if is_system(job.namespace):
                return f"the namespace {job.namespace} belongs to the system: submit the job again in the target"
            if runs_on_host(member.obj) and not self.has_image:
                return "its image `host` means the programs of this machine: name an image with --image"
            if lacking := [name for name in claims(member.obj) if f"{job.namespace}/{name}" in self.missing]:
                return f"it mounts the claim {', '.join(sorted(lacking))}, which the target does not have"
        return ""


async def count_moves(ends: Ends, choice: MoveChoice, tally: MoveTally) -> None:
    """Count the jobs that would be moved. If the target has another job of the same name, the job is listed as not
    moved."""
    for move in choice.moves:
        for member in move.job.members:
            there = await find(ends.target, member.kind, member.name, move.job.namespace)
            origin = f"{ends.source_id}/{member.obj['metadata']['uid']}"
            if there is not None and (there["metadata"].get("annotations") or {}).get(MOVED_FROM) != origin:
                tally.leave("job", move.job.id, "the target has another job of this name")
                break
        else:
            tally.row("job").moved += 1
