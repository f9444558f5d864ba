"""The language of the scenario files. These files are the specification of the core's decisions.

A file starts with a comment that states its one idea. Blocks follow. A block has statements, then `----`, then the
expected decisions up to an empty line. Without a `cycle` statement, the core decides nothing in the block. `read`
returns the steps of a file; each error message names the file and the line.

    node NAME cpu=4 memory=8Gi nvidia.com/gpu=2 label:zone=a taint:gpu=yes:NoSchedule unschedulable not-ready
        part-of=a (this node is a reserved part of node a; the amounts of node a do not include the part)
        in=GROUP (the node belongs to a node group)
    nodes PREFIX COUNT …             COUNT equal nodes: PREFIX0, PREFIX1 …
    gone NODE                        the node was deleted
    group NAME max=4 min=1 price=2.5 delay=60 timeout=90 idle=300 cpu=4 label:zone=a     a node group
    ungroup NAME                     the node group was deleted
    coming GROUP 2 from=0 expected=60 until=90      nodes that were requested before: GROUP-1, GROUP-2
    failed GROUP GROUP-1 … text=no-quota            the provider cannot add these requested nodes
    queue NAME gang=off …            the queue `default` always exists; settings.py lists all options
    unqueue NAME                     also: flavor, unflavor, reservation, unreserve, policy (settings.py)
    job NAME pods=4 cpu=1            a job with one role, `worker`; a job with other roles has indented `role` lines
        role NAME pods=2 min=1 cpu=1 select:zone=a require:arch=In:x,y&gen=Gt:3 tolerate:gpu tolerate:*
      job options: queue=q priority=5 at=30 (submit time in seconds; by default the order in the file) blocked=Held
        user=u group=g limit=600 estimate=60 begin=100 deadline=900 after=other:ok after-any singleton=name array=a/2
        reservation=r qos=high nice=5 checkpoint=600 fixed-at-start in-turn not-preemptible preempts-not last-victim
        close=rack close=rack?balanced
        sub=left (a group of roles: sub=left/min=1/close=rack/in=parent); a role has the options in=left and close=…
      `close=LEVEL` is required, `close=LEVEL?` preferred; `+balanced` or `+slice=8@rack+slice=4@host` may follow
    adopted NAME#2 running started=10 … worker/0@a worker/1@?    as `job`, with attempt, phase, placements, open slots
    open NAME worker/1 …   release NAME worker/1 …   started NAME   finished NAME [failed|deleted]
    refused NAME#1 until=60 the pods were not created
    foreign POD NODE cpu=1           a foreign pod on a node; labels, ports and affinities are written as for a role
    vacated POD                      the foreign pod was deleted
    ran NAME 50 …                    an ended job and its run time in seconds, with the options of `job`; put it first
    usage QUEUE USER 3600 at=30      past usage in billed units times seconds; put it before running jobs
    (placing.py describes devices and zones of nodes, and the constraints of pods on nodes, devices and other pods)
    cycle at=30                      run one cycle; `at` is the current time in seconds
    book                             show the free amounts of every node
    expected JOB …                   show each job's expected start, and the job whose end makes it possible
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phalanx.client.quantity import QuantityError, amount
from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    FlavorGone,
    FlavorSeen,
    NodeGone,
    NodeGroupGone,
    NodeGroupSeen,
    NodesComing,
    NodeSeen,
    NodesFailed,
    Occupied,
    Opened,
    QueueGone,
    QueueSeen,
    Refused,
    Released,
    ReservationGone,
    ReservationSeen,
    RunTold,
    Started,
    Submitted,
    UsageTold,
    Vacated,
)
from phalanx.model.job import Dependency, DependencyType, GangSize, Group, Job, Outcome, Phase, Role, Slot
from phalanx.model.node import Node, NodeGroup, SliceLayer, Taint, TopologyRequest
from phalanx.model.pod import Amounts, NodeTerm, Operator, Requirement, Shape, Toleration, amounts
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode

from . import placing, settings


class Malformed(Exception):
    """A line that is not valid. The text names the file and the line, and states what is wrong."""


@dataclass(frozen=True, slots=True)
class Cycle:
    now_s: float


@dataclass(frozen=True, slots=True)
class Book:
    pass


@dataclass(frozen=True, slots=True)
class Expected:
    jobs: tuple[str, ...]


Step = Event | Policy | Cycle | Book | Expected


@dataclass(slots=True)
class Block:
    """Statements and the expected decisions. `first` and `last` are the lines of the expected decisions in the file."""

    steps: list[Step] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    first: int = 0
    last: int = 0


class Words:
    """The words of one statement. A prefix identifies the option of a word. A word that no option reads is an error."""

    def __init__(self, line: str) -> None:
        self.rest = line.split()

    def next(self, what: str) -> str:
        if not self.rest:
            raise ValueError(f"{what} is missing")
        return self.rest.pop(0)

    def flag(self, word: str) -> bool:
        found = word in self.rest
        self.rest = [each for each in self.rest if each != word]
        return found

    def all(self, prefix: str) -> list[str]:
        found = [each.removeprefix(prefix) for each in self.rest if each.startswith(prefix)]
        self.rest = [each for each in self.rest if not each.startswith(prefix)]
        return found

    def option(self, name: str, default: str) -> str:
        return (self.all(f"{name}=") or [default])[-1]

    def amounts(self, **default: int) -> Amounts:
        found = dict(default)
        for word in [each for each in self.rest if "=" in each and ":" not in each.split("=")[0]]:
            resource, _, value = word.partition("=")
            found[resource] = amount(resource, value)
            self.rest.remove(word)
        return amounts(found)

    def slots(self, roles: tuple[Role, ...] | None) -> Iterator[tuple[Slot, str]]:
        """Read and remove the slots: `worker/0`, `worker/0@node`, or `worker/0@?` for an open slot."""
        for word in [each for each in self.rest if "/" in each and "=" not in each]:
            self.rest.remove(word)
            place, _, node = word.partition("@")
            name, _, ordinal = place.rpartition("/")
            names = [role.name for role in roles or ()]
            if name not in names:
                raise ValueError(f"there is no role {name!r} (roles: {', '.join(names) or 'none'})")
            yield Slot(names.index(name), int(ordinal)), node

    def done(self) -> None:
        if self.rest:
            raise ValueError(f"{self.rest[0]!r} means nothing here")


class Reader:
    """Read one file. `jobs`: the jobs that were read so far. The roles of a job are in the lines after its own line."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.clock_s = 0.0
        self.read: dict[str, Callable[[Words], Iterator[Step]]] = {
            "node": self.node,
            "nodes": self.nodes,
            "gone": lambda words: iter([NodeGone(words.next("the node"))]),
            "group": self.group,
            "ungroup": lambda words: iter([NodeGroupGone(words.next("the node group"))]),
            "coming": self.coming,
            "failed": self.failed,
            "queue": self.queue,
            "unqueue": lambda words: iter([QueueGone(words.next("the queue"))]),
            "flavor": lambda words: iter([FlavorSeen(settings.flavor(words.next("the flavor"), words))]),
            "unflavor": lambda words: iter([FlavorGone(words.next("the flavor"))]),
            "reservation": lambda words: iter([ReservationSeen(settings.reservation(words.next("a name"), words))]),
            "unreserve": lambda words: iter([ReservationGone(words.next("the reservation"))]),
            "policy": lambda words: iter([settings.policy(words)]),
            "job": self.job,
            "adopted": self.adopted,
            "open": self.opened,
            "release": self.released,
            "started": lambda words: iter([Started(*numbered(words))]),
            "finished": self.finished,
            "refused": self.refused,
            "foreign": self.foreign,
            "ran": self.ran,
            "usage": self.usage,
            "vacated": lambda words: iter([Vacated(words.next("the pod"))]),
            "cycle": self.cycle,
            "book": lambda words: iter([Book()]),
            "expected": self.expected,
        }

    def statement(self, text: str) -> list[Step]:
        words = Words(text)
        verb = words.next("a statement")
        if verb not in self.read:
            raise ValueError(f"{verb!r} is no statement (known: {', '.join(self.read)})")
        steps = list(self.read[verb](words))
        words.done()
        return steps

    def node(self, words: Words) -> Iterator[Step]:
        yield NodeSeen(self.described(words.next("the node's name"), words))

    def nodes(self, words: Words) -> Iterator[Step]:
        prefix, count = words.next("the prefix"), int(words.next("how many nodes"))
        like = self.described(prefix, words)
        for index in range(count):
            yield NodeSeen(
                Node(
                    name=f"{prefix}{index}",
                    allocatable=like.allocatable,
                    labels=like.labels,
                    taints=like.taints,
                    unschedulable=like.unschedulable,
                    ready=like.ready,
                    devices=like.devices,
                    zones=like.zones,
                    used=like.used,
                )
            )

    def group(self, words: Words) -> Iterator[Step]:
        name = words.next("the node group's name")
        yield NodeGroupSeen(
            NodeGroup(
                name=name,
                max_nodes=int(words.option("max", "1000")),
                min_nodes=int(words.option("min", "0")),
                price_per_hour=float(words.option("price", "0")),
                delay_s=float(words.option("delay", "60")),
                timeout_s=float(words.option("timeout", "90")),
                idle_s=float(words.option("idle", "300")),
                template=self.described(name, words),
            )
        )

    def coming(self, words: Words) -> Iterator[Step]:
        group, count = words.next("the node group"), int(words.next("how many nodes"))
        names = tuple(f"{group}-{number + 1}" for number in range(count))
        times = (float(words.option(name, "0")) for name in ("from", "expected", "until"))
        yield NodesComing(group, names, *times)

    def failed(self, words: Words) -> Iterator[Step]:
        group, text = words.next("the node group"), words.option("text", "")
        names, words.rest = tuple(words.rest), []
        yield NodesFailed(group, names, text)

    def described(self, name: str, words: Words) -> Node:
        taints = [word.rsplit(":", 1) for word in words.all("taint:")]
        return Node(
            name=name,
            labels=tuple(pair(word) for word in words.all("label:")),
            taints=tuple(Taint(*pair(left), effect=effect) for left, effect in taints),
            unschedulable=words.flag("unschedulable"),
            ready=not words.flag("not-ready"),
            group=words.option("in", ""),
            **placing.node(words),
            allocatable=words.amounts(pods=110),
        )

    def queue(self, words: Words) -> Iterator[Step]:
        yield QueueSeen(settings.queue(words.next("the queue's name"), words))

    def finished(self, words: Words) -> Iterator[Step]:
        name = words.next("the job")
        ended = [outcome for outcome in Outcome if words.flag(outcome)]
        yield Finished(name, *ended)

    def job(self, words: Words) -> Iterator[Step]:
        name = words.next("the job's name")
        yield Submitted(self.a_job(name, words))

    def a_job(self, name: str, words: Words) -> Job:
        """Return the job with its roles. In `words`, `|` comes before the words of each role line."""
        self.clock_s += 1
        blocked = words.option("blocked", "")
        queue, priority = words.option("queue", "default"), int(words.option("priority", "0"))
        submitted_s = float(words.option("at", str(self.clock_s)))
        options = job_options(words)
        roles = []
        if "|" not in words.rest:
            roles.append(role("worker", words))
        while "|" in words.rest:
            at = len(words.rest) - 1 - words.rest[::-1].index("|")
            own, words.rest = Words(" ".join(words.rest[at + 1 :])), words.rest[:at]
            roles.insert(0, role(own.next("the role's name"), own))
            own.done()
        job = Job(
            id=name,
            queue="" if queue == "none" else queue,
            priority=priority,
            submitted_s=submitted_s,
            roles=tuple(roles),
            blocked=Reason(code=ReasonCode(blocked), text=f"the world says {blocked}") if blocked else None,
            **options,
        )
        self.jobs[name] = job
        return job

    def ran(self, words: Words) -> Iterator[Step]:
        name, run_s = words.next("the job's name"), float(words.next("how long it ran"))
        yield RunTold(self.a_job(name, words), run_s)

    def adopted(self, words: Words) -> Iterator[Step]:
        name, attempt = numbered(words)
        phase, started_s = Phase(words.next("the phase")), float(words.option("started", "0"))
        placed = Words(" ".join(word for word in words.rest if "@" in word))
        words.rest = [word for word in words.rest if "@" not in word]
        job = self.a_job(name, words)
        slots = list(placed.slots(job.roles))
        yield Adopted(
            job,
            attempt,
            phase,
            tuple(placing.placement(slot, node) for slot, node in slots if node != "?"),
            tuple(slot for slot, node in slots if node == "?"),
            started_s,
        )

    def opened(self, words: Words) -> Iterator[Step]:
        name = words.next("the job")
        yield Opened(name, tuple(slot for slot, _ in words.slots(self.roles(name))))

    def released(self, words: Words) -> Iterator[Step]:
        name = words.next("the job")
        yield Released(name, tuple(slot for slot, _ in words.slots(self.roles(name))))

    def refused(self, words: Words) -> Iterator[Step]:
        name, attempt = numbered(words)
        until_s, why = float(words.option("until", "0")), " ".join(words.rest)
        words.rest = []
        yield Refused(name, attempt, Reason(code=ReasonCode.BACKOFF, text=why or "refused"), until_s)

    def foreign(self, words: Words) -> Iterator[Step]:
        pod, node = words.next("the pod"), words.next("its node")
        wishes = placing.others(words)
        yield Occupied(pod, node, words.amounts(pods=1), **wishes)

    def usage(self, words: Words) -> Iterator[Step]:
        queue, user = words.next("the queue"), words.next("the user")
        at_s = float(words.option("at", "0"))
        yield UsageTold(queue, user, float(words.next("billed units times seconds")), at_s)

    def cycle(self, words: Words) -> Iterator[Step]:
        yield Cycle(float(words.option("at", "0")))

    def expected(self, words: Words) -> Iterator[Step]:
        jobs, words.rest = tuple(words.rest), []
        yield Expected(jobs)

    def roles(self, name: str) -> tuple[Role, ...]:
        if name not in self.jobs:
            raise ValueError(f"there is no job {name!r}")
        return self.jobs[name].roles


def job_options(words: Words) -> dict[str, Any]:
    """Return the options of a job other than its queue, priority and roles. If the job has several roles, a `close=`
    before the first role belongs to the job."""
    times = {f"{name}_s": words.option(name, "") for name in ("limit", "estimate", "begin", "deadline")}
    array, _, cap = words.option("array", "").partition("/")
    close = of_the_job(words, "close=") if "|" in words.rest else ""
    return {
        **{name: float(value) for name, value in times.items() if value},
        **{name: words.option(name, "") for name in ("user", "group", "singleton", "reservation", "qos")},
        "after": tuple(dependency(word) for word in words.all("after=")),
        "requires_any": words.flag("after-any"),
        "array": array,
        "array_cap": int(cap) if cap else None,
        "nice": int(words.option("nice", "0")),
        "checkpoint_s": seconds if (seconds := float(words.option("checkpoint", "0"))) else None,
        "size": next((size for size in GangSize if words.flag(size.value)), GangSize.ELASTIC),
        "preemptible": not words.flag("not-preemptible"),
        "last_victim": words.flag("last-victim"),
        "preempts": not words.flag("preempts-not"),
        "closeness": closeness(close) if close else None,
        "groups": tuple(subgroup(word) for word in words.all("sub=")),
    }


def of_the_job(words: Words, prefix: str) -> str:
    """Return the value of the option that is written before the first role; empty: none. Remove the option."""
    own = [word for word in words.rest[: words.rest.index("|")] if word.startswith(prefix)]
    words.rest = [word for at, word in enumerate(words.rest) if at >= words.rest.index("|") or word not in own]
    return own[-1].removeprefix(prefix) if own else ""


def dependency(word: str) -> Dependency:
    job, _, after = word.partition(":")
    return Dependency(job=job, after=DependencyType(after or "ok"))


def closeness(text: str) -> TopologyRequest:
    """Read `rack`, `rack?`, `rack+balanced` or `rack+slice=8@switch+slice=4@host`. `+slice=4@host` alone names no
    level."""
    level, *more = text.split("+")
    layers: tuple[SliceLayer, ...] = ()
    for part in more:
        if part.startswith("slice="):
            pods, _, at = part.removeprefix("slice=").partition("@")
            layers += (SliceLayer(int(pods), at),)
        elif part != "balanced":
            raise ValueError(f"{part!r} is neither balanced nor slice=PODS@LEVEL")
    return TopologyRequest(
        level=level.removesuffix("?"),
        required=not level.endswith("?"),
        balanced="balanced" in more,
        slices=layers,
    )


def subgroup(word: str) -> Group:
    """Read a group of roles: `left/min=1/close=rack/in=parent`."""
    name, *parts = word.split("/")
    said = dict(part.split("=", 1) for part in parts)
    return Group(
        name=name,
        parent=said.get("in", ""),
        minimum=int(said["min"]) if "min" in said else None,
        closeness=closeness(said["close"]) if "close" in said else None,
    )


def role(name: str, words: Words) -> Role:
    count = int(words.option("pods", "1"))
    minimum = int(words.option("min", str(count)))
    group, close = words.option("in", ""), words.option("close", "")
    shape = Shape(
        selector=tuple(pair(word) for word in words.all("select:")),
        affinity=tuple(term(word) for word in words.all("require:")),
        tolerations=tuple(toleration(word) for word in words.all("tolerate:")),
        **placing.shape(words),
        requests=words.amounts(),
    )
    near = closeness(close) if close else None
    return Role(name=name, count=count, minimum=minimum, shape=shape, group=group, closeness=near)


def term(word: str) -> NodeTerm:
    """Read `zone=In:a,b&gen=Gt:3`. The field metadata.name is written `@name`."""
    return tuple(requirement(part) for part in word.split("&"))


def requirement(word: str) -> Requirement:
    key, _, rest = word.partition("=")
    operator, _, values = rest.partition(":")
    is_field = key == "@name"
    return Requirement(
        key="metadata.name" if is_field else key,
        operator=Operator(operator),
        values=tuple(values.split(",")) if values else (),
        field=is_field,
    )


def toleration(word: str) -> Toleration:
    """Read a toleration: `*` (all taints), `key` (exists) or `key=value` (equal). An effect may follow a colon."""
    left, _, effect = word.partition(":")
    key, _, value = left.partition("=")
    if value:
        return Toleration(key=key, operator="Equal", value=value, effect=effect)
    return Toleration(key="" if key == "*" else key, operator="Exists", effect=effect)


def pair(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return key, value


def numbered(words: Words) -> tuple[str, int]:
    """Read a job and its attempt: `name#2`. Without a number, the attempt is 1."""
    name, _, attempt = words.next("the job").partition("#")
    return name, int(attempt or "1")


def read(path: Path, text: str | None = None) -> list[Block]:
    """Return the blocks of the file. Raise `Malformed` with the file and the line if a statement is not valid."""
    reader, blocks = Reader(), [Block()]
    lines = (path.read_text() if text is None else text).splitlines()
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if line.startswith("----"):
            block = blocks[-1]
            block.first = at
            while at < len(lines) and lines[at].strip():
                block.expected.append(lines[at])
                at += 1
            block.last = at
            blocks.append(Block())
        elif line.strip() and not line.startswith("#"):
            while at < len(lines) and lines[at].startswith((" ", "\t")) and lines[at].strip():
                line += " | " + lines[at].strip().removeprefix("role ")
                at += 1
            try:
                blocks[-1].steps += reader.statement(line)
            except (ValueError, QuantityError) as error:
                raise Malformed(f"{path}:{number}: {error}") from None
    if blocks[-1].steps:
        raise Malformed(f"{path}:{len(lines)}: the last statements have no `----` behind them")
    return blocks[:-1]
