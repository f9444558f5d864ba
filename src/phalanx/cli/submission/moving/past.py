"""Copy data about the past: the past usage, which determines fair shares, and the ended jobs in the ledger."""

from __future__ import annotations

import hashlib
import time
from itertools import islice

from phalanx.cli.submission.moving.ends import Ends, leader
from phalanx.cli.submission.moving.portable import Copier, find
from phalanx.client.kind import CONFIG_MAPS
from phalanx.errors import PhalanxError
from phalanx.kube.status.usage import NAME, NAMESPACE

MOVED_TO = "moved-to"  # the key in a ledger entry whose value is the cluster to which the job was moved
# the annotation at the target with a digest of the usage that an earlier move wrote
_DIGEST = "phalanx.dev/moved-usage"
_AT_ONCE = 500  # the number of ledger entries that are copied together
_ENTRY = "job in the ledger"


async def copy_usage(ends: Ends, copier: Copier) -> None:
    """Copy the past usage, which determines fair shares. A scheduler reads the past usage at its start, and overwrites
    it later. So the usage is not copied if the target's scheduler runs."""
    here = await find(ends.source, CONFIG_MAPS, NAME, NAMESPACE)
    data = (here or {}).get("data") or {}
    if here is None or not data.get("usage"):
        return
    row, there = copier.tally.row("past usage"), await find(ends.target, CONFIG_MAPS, NAME, NAMESPACE)
    row.found += 1
    theirs = ((there or {}).get("data") or {}).get("usage", "")
    written = (((there or {}).get("metadata") or {}).get("annotations") or {}).get(_DIGEST, "")
    if theirs == data["usage"]:
        row.there += 1
        return
    if who := await leader(ends.target, time.time()):
        why = (
            f"the scheduler {who} of the target runs and would overwrite it: stop this scheduler (kubectl --namespace "
            "phalanx-system "
            "scale deployment phalanx --replicas 0), move again, and start it (--replicas 2)"
        )
        copier.tally.leave("past usage", f"{NAMESPACE}/{NAME}", why)
        return
    if theirs and written != _digest(theirs) and not copier.replace:
        why = "jobs have run in the target since then, and their usage would be lost; --replace overwrites it"
        copier.tally.leave("past usage", f"{NAMESPACE}/{NAME}", why)
        return
    row.moved += 1
    if copier.dry:
        return
    notes = {"annotations": {_DIGEST: _digest(data["usage"])}}
    if there is None:
        meta = {"name": NAME, "namespace": NAMESPACE, **notes}
        await ends.target.create(CONFIG_MAPS, {"metadata": meta, "data": {"usage": data["usage"]}}, NAMESPACE)
    else:
        await ends.target.patch(CONFIG_MAPS, NAME, {"metadata": notes, "data": {"usage": data["usage"]}}, NAMESPACE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def require_ledger(url: str, *, dry: bool) -> None:
    """Raise PhalanxError if the ledger with this URL cannot be opened. `dry`: True to skip the check, because the
    ledger may not exist yet."""
    if url and not dry:
        from phalanx.ledger.store import Ledger

        Ledger.open(url).close()


def copy_ledger(source: str | None, target: str | None, copier: Copier) -> None:
    """Copy the ended jobs from one ledger to the other. Jobs that the target's ledger already has are not changed.
    `source`, `target`: the URLs of the ledgers; None if there is no such ledger. Raises PhalanxError."""
    if source is None:
        return
    from phalanx.ledger.selection import Selection
    from phalanx.ledger.store import Ledger

    if source == target:
        raise PhalanxError(
            f"--ledger {target} is the ledger of the source cluster. Name the ledger of the target cluster."
        )
    row = copier.tally.row(_ENTRY)
    known = set() if target is None else _known(target, dry=copier.dry)
    with Ledger.open(source, read_only=True) as here:
        over = (one for one in here.jobs(Selection()) if not one.live and MOVED_TO not in one.words)
        while some := list(islice(over, _AT_ONCE)):
            new = [one for one in some if one.uid not in known]
            row.found += len(some)
            row.there += len(some) - len(new)
            if target is not None:
                row.moved += len(new)
                if new and not copier.dry:
                    with Ledger.open(target) as there:
                        there.put(new)
    if target is None and row.found:
        why = "no ledger of the target is named: add --ledger postgresql://USER@HOST/NAME, or sqlite:///FILE"
        copier.tally.leave(_ENTRY, f"all {row.found}", why)


def _known(url: str, *, dry: bool) -> set[str]:
    """Return the uids of all jobs in the ledger with this URL. `dry`: True to write nothing; then a missing ledger
    counts as empty."""
    from phalanx.ledger.selection import Selection
    from phalanx.ledger.store import Ledger, LedgerError

    try:
        with Ledger.open(url, read_only=dry) as there:
            return {one.uid for one in there.jobs(Selection())}
    except LedgerError:
        if dry:  # a dry run creates no tables
            return set()
        raise
