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
from phalanx.cli.study.simulation.trace_source import TraceSource
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
Rounds = Parameter(validator=Number(gte=1, lte=10_000))  # a number of simulations


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options that describe the cluster of the workload, and change the workload."""

    cluster: str = ""
    """The nodes: a file, or for example 8x8 (eight nodes with eight GPUs each)."""

    node_group: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = ()
    """Add a node group, whose nodes are requested when jobs need them: a100-spot=0x8gpu,max=20,delay=3m,price=2.5
    (docs/guide/autoscaling.md)."""

    processors: Annotated[int | None, Parameter(validator=Number(gte=1, lte=100_000_000))] = None
    """The number of processors of a log's machine, instead of the number in its header."""

    load: Annotated[float, Above] = 1.0
    """Multiply the load by this factor: the times between submissions are divided by it."""

    shake: str = "0"
    """Shift each submission by a random time, at most by this, forward or back."""

    inflate: Annotated[float | None, Parameter(validator=Number(gt=0, lte=1000))] = None
    """Fill the cluster: each second a job that is drawn from the trace is submitted, and jobs never end. This continues
    until the jobs request this multiple of the cluster's capacity."""

    first: Annotated[int | None, AtLeastOne] = None
    """Simulate only this number of jobs from the beginning of the trace. The rest of a log is not read."""

    limits: RunLimits = RunLimits.STOP
    """`stop` ends jobs at the time limits that their users requested; with `ignore` they run as long as in the
    trace."""

    follow: bool = False
    """Submit a job with a preceding job in the log after the end of that job and the think time that the log states."""

    on_error: OnError = OnError.STOP
    """The handling of records that cannot be read."""

    def source(self, trace: Path) -> TraceSource:
        """Return the trace with these options. Raises PhalanxError for an invalid option."""
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
    """The options for random numbers, faults and checkpoints."""

    seeds: Annotated[int, Rounds] = 1
    """Run each simulation this number of times, with consecutive seeds."""

    seed: int = 0
    """The first seed. It determines generated workloads, the shifts of --shake, and faults."""

    fault: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    """The faults to simulate: node-mtbf=30d, node-repair=4h, slow-start=0.1, straggler=0.05, late=0.1, lost=0.01,
    restart-every=1d …"""

    checkpoint: str | None = None
    """The time between two checkpoints of a job. Without checkpoints, a stopped job starts again from the beginning."""

    def faults(self) -> Faults | None:
        return faults_of(self.fault)

    def checkpoint_s(self) -> float | None:
        return None if self.checkpoint is None else seconds("--checkpoint", self.checkpoint)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The options for additional outputs, and for measures whose computation takes long."""

    report: Path | None = None
    """Write an HTML page with a picture of the schedule of each policy, for its first seed."""

    state: Path | None = None
    """Write the state at the moment with the longest queue, for the first policy and seed. `phalanx dashboard --state`
    shows it."""

    schedule: Path | None = None
    """Write when each job started and ended, as CSV, or as SWF if the file name ends with .swf."""

    csv: Path | None = None
    """Write all measures as CSV."""

    parquet: Path | None = None
    """Write all measures as Parquet."""

    fair_starts: Annotated[int | None, AtLeastOne] = None
    """For this number of jobs, find out whether jobs that were submitted later delayed them. For each of them, the
    simulation runs again without the later jobs."""

    compactions: Annotated[int | None, AtLeastOne] = None
    """Find the smallest part of the cluster into which the jobs of the busiest moment could be packed. Nodes are
    removed in this number of random orders."""

    json: bool = False
    """Print all measures as JSON, one line for each policy."""

    def said(self) -> list[str]:
        """Return the output options that the user gave."""
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
                raise PhalanxError(f"{file} is an input file; name another file for the results")
            if file in files[:at] and (file.is_file() or not file.exists()):
                raise PhalanxError(f"{file} is given for two results; name another file for one of them")
        if self.parquet is not None:
            pyarrow()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The options of a search for good settings of a policy."""

    tune: Path | None = None
    """Search for the settings of a policy that are best on the log, and write them into this file, together with the
    measures. The trials are kept beside the file, so a stopped search continues with the same command."""

    trials: Annotated[int, Rounds] = 50
    """The number of settings to try."""

    max_wait: str | None = None
    """The longest wait that a job may have. [default: the longest wait under `easy`]"""

    least_fairness: Annotated[float | None, Parameter(validator=Number(gte=0, lte=1))] = None
    """The smallest acceptable jain_fairness. [default: that of `easy`]"""

    aside: Annotated[float, Parameter(validator=Number(gt=0, lt=1))] = 0.3
    """The share of the jobs, from the end of the log, on which the found settings are evaluated."""

    def check(self) -> None:
        """Raise PhalanxError if an option of the search was given without --tune."""
        if self.tune is None and (said := changed(self)):
            raise PhalanxError(f"{', '.join(said)}: this needs --tune FILE; add it, or leave this option out")


def changed(options: Results | Tuning) -> list[str]:
    """Return the options whose values are not the defaults."""
    return [
        f"--{each.name.replace('_', '-')}" for each in fields(options) if getattr(options, each.name) != each.default
    ]


def pyarrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet. Raises PhalanxError if they are not installed."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise PhalanxError("--parquet needs pyarrow, which is not installed: pip install 'phalanx[parquet]'") from None


def faults_of(said: Sequence[str]) -> Faults | None:
    """Return the faults that texts such as `node-mtbf=30d` describe; None without texts. Raises PhalanxError for an
    invalid text."""
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
            raise PhalanxError(f"--fault {each}: a probability is from 0 to 1")
    return Faults(**values)


def shown(name: str) -> str:
    """Return the name that options use for a field of `Faults`: `node-mtbf` for `node_mtbf_s`, but `slow-start-time`
    for `slow_start_s`, because `slow-start` is a probability."""
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
        raise PhalanxError(f"{option}: {text!r} is not a number of at least 0")
    return value
