"""`phalanx move`: move the queues, accounts, ledger and waiting jobs of one cluster to another."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.choosing import live_jobs
from phalanx.cli.cluster.target import Target, find_ledger_of
from phalanx.cli.submission.moving.ends import Ends, both
from phalanx.cli.submission.moving.images import Replacement, host_paths
from phalanx.cli.submission.moving.obstacles import Obstacles, count_moves
from phalanx.cli.submission.moving.past import copy_ledger, copy_usage, require_ledger
from phalanx.cli.submission.moving.portable import Copier, MoveTally
from phalanx.cli.submission.moving.selection import MoveChoice, choose, is_marked
from phalanx.cli.submission.moving.surroundings import (
    copy_surroundings,
    missing_claims,
    namespace_owners,
    serves,
    target_site,
)
from phalanx.cli.submission.moving.transfer import KINDS, STEPS, Transfer, marked, requeue
from phalanx.cli.terminal.output import counted, note, print_json, print_table
from phalanx.cli.terminal.progress import progress_bar
from phalanx.client.connection import ApiUnknown
from phalanx.client.kind import JOBS, PODS
from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.site import Site


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
    """The options of a move."""

    dry_run: bool = False
    """Change nothing; show what would be moved, and what would stay."""

    replace: bool = False
    """Replace objects of the target cluster that have the same name and another content. Jobs are never replaced."""

    requeue: bool = False
    """Also stop and move running Jobs. They start again from the beginning in the target cluster."""

    image: str = ""
    """The new image of jobs whose image is `host` (the programs of this machine). Without this option these jobs are
    not moved."""

    mount: tuple[str, ...] = ()
    """A directory that all nodes of the target have at the same path, for example /home. It is mounted into the pods
    that get the image of --image. The option may be repeated."""

    empty_claims: bool = False
    """Create the PersistentVolumeClaims that the target lacks. Their data is not copied."""

    ledger: str = ""
    """The ledger of the target: postgresql://USER@HOST/NAME or sqlite:///FILE. Without this option the ledger is not
    copied."""

    undo: bool = False
    """Undo an unfinished move. Jobs that still exist in this cluster are released here, and their copies in the target
    are deleted."""


async def move(
    *,
    to: Path,
    to_context: str | None = None,
    way: MoveOptions | None = None,
    json: bool = False,
    target: Target | None = None,
) -> None:
    """Move the queues, accounts, ledger and waiting jobs of this cluster to another one.

    Other objects are copied, but waiting jobs are moved, so that each job exists in one cluster only. Jobs keep their
    name, user, number, place in the queue, hold, nice value and dependencies. Running jobs stay in this cluster and end
    there. Objects that are not moved are listed with the reason. If the command is interrupted, repeat it: it continues
    where it stopped. First install Phalanx in the target cluster, with its scheduler stopped
    (docs/guide/from-one-machine-to-a-cluster.md).

    For example:

        phalanx move --to ~/k3s.yaml --dry-run
        phalanx move --to ~/k3s.yaml --ledger postgresql://phalanx@db/phalanx
        phalanx move --to ~/k3s.yaml --image registry.example/lab:1 --mount /home
        phalanx move --to ~/k3s.yaml --requeue --json | jq .left
        phalanx move --to ~/k3s.yaml --undo

    Parameters
    ----------
    to
        The kubeconfig of an administrator of the target cluster.
    to_context
        The context of --to. [default: its current context]
    json
        Print JSON: kinds (kind, found, moved, there (already in the target), left), left (kind, name, why), notes.
    """
    way = way or MoveOptions()
    require_mounts(way)
    ledger = find_ledger_of(target, os.environ)
    async with both(target, to, to_context, dry=way.dry_run) as ends:
        tally = MoveTally()
        try:
            await (take_back(ends, tally, way) if way.undo else moved(ends, tally, way, ledger))
        except ApiUnknown as error:
            raise PhalanxError(
                f"{error}. The move is not finished. No job is lost or duplicated: repeat the same command."
            ) from error
    if json:
        print_json({"dry_run": way.dry_run, **tally.json()})
    else:
        show(tally, way)


def require_mounts(way: MoveOptions) -> None:
    for path in way.mount:
        if not path.startswith("/") or ":" in path:
            raise PhalanxError(f"--mount {path}: write the full path of a directory, for example /home")
    if way.mount and not way.image:
        raise PhalanxError("--mount applies to jobs that get another image: name the image with --image")


async def moved(ends: Ends, tally: MoveTally, way: MoveOptions, ledger: str | None) -> None:
    """Copy all objects and move all jobs that can be moved; count them in `tally`. `ledger`: the URL of the source
    cluster's ledger."""
    copier = Copier(target=ends.target, tally=tally, dry=way.dry_run, replace=way.replace)
    require_ledger(way.ledger, dry=way.dry_run)
    await copy_surroundings(ends, copier)
    missing = await missing_claims(ends, copier, empty=way.empty_claims)
    await copy_usage(ends, copier)
    copy_ledger(ledger, way.ledger or None, copier)
    images = Replacement(
        image=way.image, mounts=way.mount, owners=await namespace_owners(ends), site=await target_site(ends)
    )
    kinds = {kind for kind in KINDS if kind in (JOBS, PODS) or await serves(ends, kind)}
    obstacles = Obstacles(has_image=bool(way.image), missing=missing, kinds=kinds)
    copied = {copy.origin for copy in await marked(ends)}
    choice = choose(await live_jobs(ends.source, ""), obstacles.of, copied)
    if way.requeue and choice.runs and not way.dry_run:
        await requeue(ends, choice.runs)
        choice = choose(await live_jobs(ends.source, ""), obstacles.of, copied)
    _count(choice, tally, way)
    if way.dry_run:
        await count_moves(ends, choice, tally)
        return
    with progress_bar(STEPS * len(choice.moves) + len(copied), "steps") as progress:
        tally.tick = _summed(progress)
        await Transfer(ends, tally, images).run(choice, copier)


async def take_back(ends: Ends, tally: MoveTally, way: MoveOptions) -> None:
    """Undo an unfinished move. If the original of a job no longer exists, the job has already moved completely, so
    release its copy in the target."""
    jobs = [job for job in await live_jobs(ends.source, "") if is_marked(job)]
    row = tally.row("job taken back")
    row.found = row.moved = len(jobs)
    if way.dry_run:
        return
    transfer = Transfer(ends, tally, Replacement(site=Site()))
    await transfer.take_back(jobs)
    done = await transfer.release(await marked(ends))
    row = tally.row("job that had moved")
    row.found = row.there = done


def show(tally: MoveTally, way: MoveOptions) -> None:
    rows = tally.table()
    if rows:
        print_table(("KIND", "FOUND", "WOULD MOVE" if way.dry_run else "MOVED", "THERE", "LEFT"), rows)
    else:
        note("this cluster has nothing to move")
    if tally.left:
        print()
        print_table(("LEFT", "NAME", "WHY"), list(tally.reasons()))
    for text in tally.notes:
        note(text)


def _count(choice: MoveChoice, tally: MoveTally, way: MoveOptions) -> None:
    row = tally.row("job")
    row.found = len(choice.moves) + len(choice.stays)
    for job, why in choice.stays:
        tally.leave("job", job.id, why)
    paths = sorted({path for move in choice.moves for member in move.job.members for path in host_paths(member.obj)})
    if paths:
        tally.notes.append(
            f"jobs mount {', '.join(paths)} of their node, and files are not moved: each node of the target needs the "
            "same "
            "directories (docs/guide/from-one-machine-to-a-cluster.md, shared storage)"
        )
    if choice.over:
        tally.notes.append(f"{counted(choice.over, 'ended job')} not copied; the ledger has them")
    if way.dry_run and way.requeue and choice.runs:
        tally.notes.append(f"--requeue would stop and move {counted(len(choice.runs), 'running job')}")


def _summed(progress: Callable[[int], Any]) -> Callable[[int], None]:
    """Return a function that adds its argument to the number of finished steps, and passes this number to
    `progress`."""
    done = 0

    def add(steps: int) -> None:
        nonlocal done
        done += steps
        progress(done)

    return add
