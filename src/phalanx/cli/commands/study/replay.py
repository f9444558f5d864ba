"""`phalanx replay`: show a recording of the scheduler decision by decision, and decide each step again."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from phalanx.cli.files.recording import RecordedStep, decided, steps
from phalanx.cli.terminal.output import counted, note, print_json_line
from phalanx.cli.views.page.study import Observer, encoded
from phalanx.dashboard.rows import Facts
from phalanx.dialects.schema.recording import written
from phalanx.errors import PhalanxError
from phalanx.model.event import Event
from phalanx.model.job import Placement
from phalanx.model.plan import Action, Nominate, Place, Plan, Preempt, ReleaseNodes, RequestNodes, Shrink, Start, Wait
from phalanx.model.reason import format_time
from phalanx.state.cluster import Cluster

SHOWN = 12  # the maximum numbers of events and of decisions that are printed for a step


def replay(
    recording: Annotated[Path, Parameter(name="RECORDING")],
    /,
    *,
    step: bool = False,
    first: int = 1,
    last: int | None = None,
    job: str | None = None,
    json: bool = False,
    state: Path | None = None,
) -> int:
    """Replay a recording: for each step (scheduling cycle), show its events and the scheduler's decisions.

    This version of Phalanx decides every step again. If the recording has another decision for a step, both decisions
    are shown, and the exit code of the command is 1.

    For example:

        phalanx scheduler --record monday.jsonl      # or `phalanx up --record`, or `phalanx snapshot now.jsonl`
        phalanx replay monday.jsonl --job default/train
        phalanx replay monday.jsonl --step --first 120
        phalanx replay monday.jsonl --last 120 --state now.json && phalanx dashboard --state now.json

    Parameters
    ----------
    step
        Wait for the Enter key after every step.
    first
        Show steps from this number on; earlier steps are replayed without output.
    last
        The last step to replay.
    job
        Show only steps with an event or a decision about this job (NAMESPACE/NAME).
    json
        Print each step as a line of JSON.
    state
        Write the state after the last replayed step into this file. `phalanx dashboard --state` shows it.
    """
    cluster, differing, seen, shown, observer = Cluster(), 0, 0, 0, _observer(recording, state)
    for each in steps(recording):
        if last is not None and each.number > last:
            break
        cluster = Cluster() if each.begins else cluster
        plan = decided(cluster, each)
        if observer is not None:
            observer.note(each.events, plan, each.now_s)
        seen, differs = each.number, each.actions is not None and list(each.actions) != list(plan.actions)
        differing += differs
        if each.number < first or (job is not None and not concerns(each, plan, job)):
            continue
        shown += 1
        _print(each, plan, differs=differs, json=json)
        if step and not pressed_enter():
            break
    if observer is not None and state is not None:
        observer.show(cluster)
        _write(state, encoded(observer))
    _tell_end(seen, differing, missed=job if not shown else None)
    return 1 if differing else 0


def _print(each: RecordedStep, plan: Plan, *, differs: bool, json: bool) -> None:
    if json:
        print_json_line(as_json(each, plan, differs=differs))
    else:
        print("\n".join(told(each, plan, differs=differs)))


def _tell_end(seen: int, differing: int, missed: str | None) -> None:
    """Print the number of replayed steps. `missed`: the job of --job if no step has an event or a decision about it;
    otherwise None."""
    if missed is not None:
        note(f"no shown step has an event or a decision about a job {missed}; write the name as NAMESPACE/NAME")
    whole = counted(seen, "step")
    note(f"{whole}; {differing} with another decision than recorded" if differing else f"{whole}, as recorded")


def _observer(recording: Path, state: Path | None) -> Observer | None:
    """Return the observer that collects the steps for a state file; None without --state."""
    facts = Facts(cluster=recording.name, past=True, study=f"recording {recording.name}")
    return Observer(facts=facts) if state is not None else None


def _write(file: Path, content: bytes) -> None:
    """Write the file so that only its owner can read it, because it contains names of users. Raises PhalanxError."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(content)
    except OSError as error:
        raise PhalanxError(f"{file} cannot be written: {error.strerror}") from error


def concerns(each: RecordedStep, plan: Plan, job: str) -> bool:
    return any(subject(item) == job for item in (*each.events, *plan.actions))


def subject(item: Event | Action) -> str:
    """Return the id of the job that the event or action concerns; "" if it concerns no job."""
    about = getattr(item, "job", "")
    return about if isinstance(about, str) else str(about.id)


def as_json(each: RecordedStep, plan: Plan, *, differs: bool) -> dict[str, object]:
    found: dict[str, Any] = {"step": each.number, "now_s": each.now_s}
    found["events"] = [written(event) for event in each.events]
    found["actions"] = [written(action) for action in plan.actions]
    if differs:
        found["recorded"] = [written(action) for action in each.actions or ()]
    return found


def told(each: RecordedStep, plan: Plan, *, differs: bool) -> Iterator[str]:
    at = format_time(each.now_s, each.now_s)
    yield f"step {each.number}, {at}: {counted(len(each.events), 'event')}, {counted(len(plan.actions), 'decision')}"
    yield from shortened("  told    ", [event_line(event) for event in each.events])
    yield from shortened("  decided ", [action_line(action) for action in plan.actions])
    if differs:
        yield from shortened("  recorded", [action_line(action) for action in each.actions or ()])


def shortened(head: str, found: list[str]) -> Iterator[str]:
    yield from (f"{head} {line}" for line in found[:SHOWN])
    if len(found) > SHOWN:
        yield f"{head} and {len(found) - SHOWN} more"


def event_line(event: Event) -> str:
    """Return the kind of the event and the name of its object."""
    plain = written(event)
    names = [value for key, value in plain.items() if key in {"is", "job", "name", "pod", "queue"} and value]
    inner = [value.get("id") or value.get("name") for value in plain.values() if isinstance(value, dict)]
    words = [str(name) for name in names if isinstance(name, str)]
    return " ".join([*words, *(str(name) for name in inner if name)])


def action_line(action: Action) -> str:
    match action:
        case Start(job, attempt, placements):
            return f"start {job}#{attempt} {where(placements) or 'pod by pod'}"
        case Place(job, placements):
            return f"place {job} {where(placements)}"
        case Wait(job, reason):
            return f"wait {job}: {reason.code}: {reason.text}"
        case Preempt(job, _, by, reason):
            return f"preempt {job} for {by}: {reason.text}"
        case Shrink(job, slots, by, reason):
            return f"shrink {job} by {len(slots)} for {by}: {reason.text}"
        case Nominate(job, placements):
            return f"promise {job} {where(placements) or 'nothing more'}"
        case RequestNodes(job, group, nodes):
            return f"request {counted(len(nodes), 'node')} of {group} for {job or 'its minimum'}"
        case ReleaseNodes(_, group, nodes, late):
            return f"{'give up' if late else 'release'} {counted(len(nodes), 'node')} of {group}: {', '.join(nodes)}"


def where(placements: tuple[Placement, ...]) -> str:
    """Return the nodes of the placements as text: `on a*2 b` for two pods on node a and one on b."""
    counted = Counter(placement.node for placement in placements)
    return "on " + " ".join(node if n == 1 else f"{node}*{n}" for node, n in counted.items()) if counted else ""


def pressed_enter() -> bool:
    """Wait for the Enter key. Return False if the input has ended."""
    print("-- Enter for the next step, Ctrl-D to stop --", file=sys.stderr, end="", flush=True)
    return bool(sys.stdin.readline())
