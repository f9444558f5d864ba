"""The effects of a change on jobs, in brief: which it stops, which start earlier, and which later or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.cli.study.whatif.outlook import Prospect, WhatIfOutlook, because, difference
from phalanx.cli.terminal.output import counted, duration
from phalanx.simulator.run.forward import ForwardEviction

_SHOWN = 10
_LEAST_S = 1.0  # starts that differ by less are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfEffects:
    """`stopped`: jobs that are preempted with the change, and were not without it. `never`: jobs that start without the
    change, and not with it."""

    stopped: tuple[tuple[Prospect, ForwardEviction], ...]
    earlier: tuple[Prospect, ...]
    later: tuple[Prospect, ...]
    never: tuple[Prospect, ...]


def effects(outlook: WhatIfOutlook) -> WhatIfEffects:
    """Compare the two futures of the outlook."""
    prospects = outlook.prospects()
    stopped = tuple((each, eviction) for each in prospects for eviction in _further_evictions(each))
    others = [each for each in prospects if each.job not in {one.job for one, _ in stopped}]
    return WhatIfEffects(
        stopped=stopped,
        earlier=tuple(each for each in others if _gain_s(each, outlook) >= _LEAST_S),
        later=tuple(each for each in others if _gain_s(each, outlook) <= -_LEAST_S and not _is_lost(each)),
        never=tuple(each for each in others if _is_lost(each)),
    )


def lines(found: WhatIfEffects, outlook: WhatIfOutlook) -> Iterator[str]:
    """Yield the effects as text."""
    stopped = [
        f"{each.job}, in queue {each.queue}, for {eviction.by or 'no job'} {_when(eviction, outlook)}, having run "
        f"{duration(eviction.ran_s)}"
        for each, eviction in found.stopped
    ]
    yield from _group("stopped", stopped)
    yield from _group("earlier", [f"{each.job}: {difference(each, outlook)}" for each in found.earlier])
    yield from _group("later", [f"{each.job}: {difference(each, outlook)}" for each in found.later])
    never = [f"{each.job}{because(each.after.reason if each.after else None)}" for each in found.never]
    yield from _group(f"not within {duration(outlook.horizon_s)}", never)


def record(found: WhatIfEffects) -> dict[str, Any]:
    """Return the effects for `--json`."""
    return {
        "stopped": [
            {"job": each.job, "queue": each.queue, "by": eviction.by, "ran_s": eviction.ran_s}
            for each, eviction in found.stopped
        ],
        **{
            name: [
                {"job": each.job, "queue": each.queue, "difference_s": each.difference_s}
                for each in getattr(found, name)
            ]
            for name in ("earlier", "later", "never")
        },
    }


def _group(title: str, texts: Sequence[str]) -> Iterator[str]:
    yield f"{title}: {counted(len(texts), 'job') if texts else 'no job'}"
    yield from (f"  {text}" for text in texts[:_SHOWN])
    if len(texts) > _SHOWN:
        yield f"  and {counted(len(texts) - _SHOWN, 'more job')}"


def _when(eviction: ForwardEviction, outlook: WhatIfOutlook) -> str:
    after_s = eviction.at_s - outlook.now_s
    return f"in {duration(after_s)}" if after_s >= _LEAST_S else "at once"


def _further_evictions(each: Prospect) -> tuple[ForwardEviction, ...]:
    if each.after is None:
        return ()
    return tuple(each.after.evictions[len(each.before.evictions) if each.before is not None else 0 :])


def _gain_s(each: Prospect, outlook: WhatIfOutlook) -> float:
    """Return how much earlier the job starts; a job that does not start counts from the horizon."""
    if each.before is None or each.after is None:
        return 0.0
    before_s, after_s = each.before.wait_s, each.after.wait_s
    return (outlook.horizon_s if before_s is None else before_s) - (outlook.horizon_s if after_s is None else after_s)


def _is_lost(each: Prospect) -> bool:
    return (
        each.before is not None
        and each.after is not None
        and each.before.wait_s is not None
        and each.after.wait_s is None
    )
