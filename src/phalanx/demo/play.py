"""Run the demo in two acts: the applications are scheduled first pod by pod, and then as gangs. Then check the results.

The manifests of the pods are the same in both acts. The queues of the two acts differ only in the field `gang`.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import NAMESPACES, SECRETS, Kind
from phalanx.demo.trial import APPLICATIONS, NAMESPACE, Trial, access_secret, clear, queue, results, run_trial
from phalanx.demo.words import Summary, read_summary
from phalanx.errors import PhalanxError

QUEUES = Kind(group="phalanx.dev", plural="queues", name="Queue", namespaced=False)
POD_BY_POD, GANGS = "pod-by-pod", "gangs"


class PlayStage(Protocol):
    """The output of the demo. `show` is called with the present state of a trial, and `end_of` after the trial."""

    def say(self, text: str) -> None: ...

    def show(self, trial: Trial) -> None: ...

    def end_of(self, trial: Trial) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The address of the API server, and the credentials with which the drivers call it. `ca`: certificates in PEM."""

    server: str
    token: str
    ca: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The result of both acts. `without`: the trial in which pods are scheduled one by one. `counts`: the word counts
    of each application in the second act. `reference`: the word counts of a single process, with which `counts` must
    agree."""

    without: Trial
    gangs: Trial
    counts: dict[str, Summary]
    reference: Summary

    @property
    def right(self) -> int:
        """Return the number of applications whose word counts equal the reference."""
        return sum(counted == self.reference for counted in self.counts.values())

    @property
    def holds(self) -> bool:
        """Return whether both acts ended as expected: the first in a deadlock, the second with the right word
        counts."""
        return (
            self.without.deadlocked
            and self.without.finished == 0
            and self.gangs.finished == APPLICATIONS
            and self.right == APPLICATIONS
        )

    def record(self) -> dict[str, Any]:
        """Return the result as JSON values, for `--json`."""
        return {
            "pod_by_pod": _record(self.without),
            "gangs": {**_record(self.gangs), "counted_right": self.right},
            "words": self.reference.words,
            "most_common": dict(self.reference.most_common),
            "holds": self.holds,
        }


async def play(connection: Connection, access: Access, cpus: int, stage: PlayStage) -> DemoResult:
    """Run both acts on a cluster whose only node has `cpus` CPUs. Raises PhalanxError if one of the acts cannot be
    run."""
    await _prepare(connection, access)
    reference = asyncio.ensure_future(_count_alone())

    stage.say(f"{APPLICATIONS} applications at once, pod by pod: queue {POD_BY_POD} (gang: false)")
    without = await run_trial(connection, "without", POD_BY_POD, cpus, stage.show)
    stage.end_of(without)
    stage.say(f"deleting the {len(without.pods)} pods")
    await clear(connection, without)

    stage.say(f"the same {APPLICATIONS} applications at once, as gangs: queue {GANGS} (gang: true)")
    gangs = await run_trial(connection, "gangs", GANGS, cpus, stage.show)
    stage.end_of(gangs)

    lines = await results(connection, gangs)
    counts = {name: counted for name, line in lines.items() if (counted := _summary(line))}
    return DemoResult(without=without, gangs=gangs, counts=counts, reference=await reference)


async def _prepare(connection: Connection, access: Access) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await _ensure(connection, NAMESPACES, namespace)
    await _ensure(connection, QUEUES, queue(POD_BY_POD, gang=False))
    await _ensure(connection, QUEUES, queue(GANGS, gang=True))
    secret = access_secret(NAMESPACE, access.server, access.token, access.ca)
    await _ensure(connection, SECRETS, secret, NAMESPACE)


async def _ensure(connection: Connection, kind: Kind, obj: Object, namespace: str = "") -> None:
    try:
        await connection.create(kind, obj, namespace)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise


async def _count_alone() -> Summary:
    """Return the reference word counts, which a separate process computes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "phalanx.demo.words", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise PhalanxError(f"counting the words in a single process failed with exit code {process.returncode}")
    return read_summary(output.decode().strip())


def _summary(line: str) -> Summary | None:
    try:
        return read_summary(line)
    except msgspec.DecodeError:
        return None


def _record(trial: Trial) -> dict[str, Any]:
    return {
        "finished": trial.finished,
        "of": len(trial.applications),
        "deadlocked": trial.deadlocked,
        "seconds": round(trial.seconds, 2),
        "cpus_held_at_end": trial.held,
        "executors_waiting_at_end": trial.waiting_executors,
    }
