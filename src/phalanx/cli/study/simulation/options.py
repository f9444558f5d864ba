"""The options of `phalanx simulate`, grouped by subject."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.local.node_groups.option import node_groups
from phalanx.cli.study.simulation.cells import TraceSource
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError
from phalanx.simulator.cluster.disturbance import Faults
from phalanx.simulator.readers.lines import OnError


class RunLimits(StrEnum):
    STOP = "stop"
    IGNORE = "ignore"


_CHANCES = {"slow_start", "straggler", "late", "lost"}
Above = Parameter(validator=Number(gt=0, lte=1_000_000))
AtLeastOne = Parameter(validator=Number(gte=1))
Rounds = Parameter(validator=Number(gte=1, lte=10_000))  # each is a simulation of its own


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The workload, and the changes to it."""

    cluster: str = ""
    """Nodes: a file, or for instance 8x8 (eight nodes of eight GPUs)."""

    node_group: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = ()
    """Node groups, whose nodes are requested when jobs need them: a100-spot=0x8gpu,max=20,delay=3m,price=2.5
    (docs/guide/autoscaling.md)."""

    processors: Annotated[int | None, Parameter(validator=Number(gte=1, lte=100_000_000))] = None
    """The size of a log's machine, instead of what its header says."""

    load: Annotated[float, Above] = 1.0
    """Multiply the load by that, by shrinking the time between submissions."""

    shake: str = "0"
    """Move every submission by up to that time either way."""

    inflate: Annotated[float | None, Parameter(validator=Number(gt=0, lte=1000))] = None
    """Fill the cluster up: jobs drawn from the trace come, one a second, until they ask so many times what the cluster
    has, and stay."""

    first: Annotated[int | None, AtLeastOne] = None
    """Play the first so many jobs only; of a log no more is read."""

    limits: RunLimits = RunLimits.STOP
    """Whether jobs are stopped at the limits that their users asked for, or run as long as the trace says."""

    follow: bool = False
    """Submit jobs their think time after the one that their log calls their predecessor."""

    on_error: OnError = OnError.STOP
    """What to do about records that cannot be read."""

    def source(self, trace: Path) -> TraceSource:
        """Raises PhalanxError."""
        return TraceSource(
            trace=trace,
            cluster=self.cluster,
            groups=node_groups(self.node_group),
            processors=self.processors,
            on_error=self.on_error,
            follow=self.follow,
            first=self.first,
            load=self.load,
            inflate=self.inflate,
            overruns=self.limits is RunLimits.IGNORE,
            shake_s=seconds("--shake", self.shake),
        )


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """Seeds and faults."""

    seeds: Annotated[int, Rounds] = 1
    """Play each so many times, with the seeds that follow."""

    seed: int = 0
    """The first seed. It decides generated workloads, shaking and faults."""

    fault: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    """What goes wrong: node-mtbf=30d, node-repair=4h, slow-start=0.1, straggler=0.05, late=0.1, lost=0.01,
    restart-every=1d …"""

    checkpoint: str | None = None
    """How often jobs save their work; otherwise one that is stopped begins anew."""

    def faults(self) -> Faults | None:
        return faults_of(self.fault)

    def checkpoint_s(self) -> float | None:
        return None if self.checkpoint is None else seconds("--checkpoint", self.checkpoint)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Further outputs of the results, and measures that cost much time."""

    report: Path | None = None
    """Write a page (HTML) that draws what each policy made of it, for the first seed of each."""

    state: Path | None = None
    """Write the state at the moment with the longest queue, for the first policy and seed: `phalanx dashboard --state`
    shows it."""

    schedule: Path | None = None
    """Write when each job started and ended: CSV, or SWF if the name ends so."""

    csv: Path | None = None
    """Write all measures as CSV."""

    parquet: Path | None = None
    """Write all measures as Parquet."""

    fair_starts: Annotated[int | None, AtLeastOne] = None
    """Find out of so many jobs whether jobs that came later delayed them; each is played again without these."""

    compactions: Annotated[int | None, AtLeastOne] = None
    """Find out into how small a part of the cluster the busiest moment could be packed; nodes are taken away in so many
    orders by chance."""

    json: bool = False
    """Print all measures: a line of JSON for each policy."""

    def said(self) -> list[str]:
        """Return the options for outputs that the user gave."""
        return changed(self)

    def check(self, read: Sequence[Path]) -> None:
        """Check, before a long simulation begins, that the output files can be written and do not replace input files.
        Raises PhalanxError."""
        known = {file.resolve() for file in read}
        files = [file for file in (self.report, self.state, self.schedule, self.csv, self.parquet) if file is not None]
        for at, file in enumerate(files):
            if not file.parent.is_dir():
                raise PhalanxError(f"{file} cannot be written: there is no folder {file.parent}")
            if file.is_dir() or not os.access(file.parent if not file.exists() else file, os.W_OK):
                why = "it is a folder" if file.is_dir() else "that is not permitted"
                raise PhalanxError(f"{file} cannot be written: {why}")
            if file.resolve() in known:
                raise PhalanxError(f"{file} is read; name another file for what comes of it")
            if file in files[:at] and (file.is_file() or not file.exists()):
                raise PhalanxError(f"{file} is named for two results; name another file for one of them")
        if self.parquet is not None:
            pyarrow()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Settings searched on a log."""

    tune: Path | None = None
    """Search the settings of a policy on the log, and write what is best there, with its evidence. What was tried is
    kept beside the file: the same command goes on where it was stopped."""

    trials: Annotated[int, Rounds] = 50
    """How many settings to try."""

    max_wait: str | None = None
    """No job may wait longer; as long as under easy if not given."""

    least_fairness: Annotated[float | None, Parameter(validator=Number(gte=0, lte=1))] = None
    """The least of jain_fairness; that of easy if not given."""

    aside: Annotated[float, Parameter(validator=Number(gt=0, lt=1))] = 0.3
    """What part of the jobs, the last, is kept aside to judge what was found."""

    def check(self) -> None:
        """Raise PhalanxError for options of the search without --tune."""
        if self.tune is None and (said := changed(self)):
            raise PhalanxError(f"{', '.join(said)}: nothing is searched; say --tune FILE, too, or leave that out")


def changed(options: Results | Tuning) -> list[str]:
    """Return the options whose values are not the defaults."""
    return [
        f"--{each.name.replace('_', '-')}" for each in fields(options) if getattr(options, each.name) != each.default
    ]


def pyarrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet. Raises PhalanxError where they are not installed."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise PhalanxError("--parquet needs pyarrow, which is not installed: pip install 'phalanx[parquet]'") from None


def faults_of(said: Sequence[str]) -> Faults | None:
    """`node-mtbf=30d` and the like. Raises PhalanxError."""
    if not said:
        return None
    names = {shown(one.name): one.name for one in fields(Faults)}
    values: dict[str, float] = {}
    for each in said:
        name, _, value = each.partition("=")
        if name not in names:
            raise PhalanxError(f"--fault {each}: there is no fault {name!r}; known are {', '.join(sorted(names))}")
        of = seconds if names[name].endswith("_s") else number
        values[names[name]] = of(f"--fault {name}", value)
        if names[name] in _CHANCES and values[names[name]] > 1:
            raise PhalanxError(f"--fault {each}: a chance is from 0 to 1")
    return Faults(**values)


def shown(name: str) -> str:
    """Return the option's name for a field: `node-mtbf` for `node_mtbf_s`, but `slow-start-time` for `slow_start_s`,
    because the option `slow-start` is a probability."""
    plain = name.removesuffix("_s")
    return (plain + "-time" if plain != name and plain in _CHANCES else plain).replace("_", "-")


def seconds(option: str, text: str) -> float:
    try:
        return duration_s(text)
    except Misread as misread:
        raise PhalanxError(f"{option}: {misread.text}") from None


def number(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise PhalanxError(f"{option}: {text!r} is no number from 0")
    return value
