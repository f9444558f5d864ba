"""What waits behind the head of a strict queue says so: who the head is, why that waits, and when enough is expected.

Thousands may stand there, and each time that the head starts another is the head. So whoever comes to stand behind one
is told once; when it is another, or waits for something else, only the next few are told anew, and the others when they
get that far. Whoever asks (`phalanx explain`) has it decided anew, and is told who is the head now."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from phalanx.core.reasons import no_quota
from phalanx.model.plan import Asleep
from phalanx.model.reason import ALONE, Reason, ReasonCode
from phalanx.state.pending.line import LineKey

if TYPE_CHECKING:
    from phalanx.core.cycle.steps import Cycle

NEXT = 4  # lines right behind a head, which always name it

Wait: TypeAlias = tuple[str | None, str | None]  # what one behind a head is told: the head, and the code of its reason


def tell(cycle: Cycle) -> None:
    """All that this cycle's heads hold up."""
    if not cycle.contest.closed:
        return
    found = {each.line: each.reason for each in cycle.asleep}
    behind: dict[LineKey, list[LineKey]] = {}
    for key, (head, _) in cycle.contest.behind.items():
        if key not in cycle.dozing:
            behind.setdefault(head, []).append(key)
    for queue, (key, entry) in cycle.contest.closed.items():
        line = cycle.waiting.lines.get(key)
        why = found.get(key) or (line.reason if line is not None else None)
        held_up, now = behind.get(key, []), (entry.bid.job, None if why is None else str(why.code))
        near = dict.fromkeys([each for each in next_few(cycle, queue, held_up, now) if each not in found])
        if not (held_up or near):
            continue
        reason = no_quota.behind_head(cycle.cluster, entry.bid.job, queue, why)
        for each in dict.fromkeys((*held_up, *near)):
            tell_line(cycle, each, reason, near=each in near)


def next_few(cycle: Cycle, queue: str, held_up: list[LineKey], now: Wait) -> list[LineKey]:
    """The lines right behind the head that sleep for its sake; none if the first of them has heard of it, since the
    others were told with it."""
    waiting = cycle.waiting
    if queue not in waiting.heads.orders:
        return held_up[:NEXT]
    found: list[LineKey] = []
    for _, key in islice(waiting.heads.of(queue), 2 * NEXT):
        said = waiting.lines[key].reason
        if said is not None and said.code is ReasonCode.BEHIND_HEAD:
            if not found and wait_of(said) == now:
                break
            found.append(key)
            if len(found) == NEXT:
                break
    return found


def tell_line(cycle: Cycle, key: LineKey, reason: Reason, *, near: bool) -> None:
    line = cycle.waiting.lines.get(key)
    said = None if line is None else line.reason
    if said is None or not is_behind(said) or (near and wait_of(said) != wait_of(reason)):
        first = cycle.first_waiting(key)
        if first is not None:
            cycle.put_to_sleep(key, first.bid, Asleep(key, reason))
    else:
        if key in cycle.awake:
            cycle.asleep.append(Asleep(key, said))
        cycle.tell_new(key, said)


def is_behind(reason: Reason | None) -> bool:
    return reason is not None and reason.code is ReasonCode.BEHIND_HEAD


def takes_turns(said: Reason, reason: Reason) -> bool:
    """The line comes to the head, or behind another's: who stands further back in it waits as before."""
    return is_behind(said) != is_behind(reason) and not ALONE & {said.code, reason.code}


def wait_of(reason: Reason) -> Wait:
    """Another is the head, or it waits for something else: then that is another; when enough is expected back moves all
    the time."""
    return reason.numbers.get("head"), reason.numbers.get("head_code")
