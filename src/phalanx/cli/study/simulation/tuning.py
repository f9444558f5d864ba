"""Search for the settings of a policy that are best on a site's own log.

The jobs of the log are split into two parts, in order of submission. Settings are tried on the first part. The second
part is simulated only once, with the best settings. The best settings have the smallest mean bounded slowdown, while
the longest wait and Jain's index of fairness stay within bounds. The bounds are the values of the policy `easy` on the
same jobs, unless the user sets them. If a trial exceeds a bound by a factor, its score is multiplied by the square of
this factor, so that the search avoids such settings.

Optuna proposes the trials (tree-structured Parzen estimator: Bergstra et al., NIPS 2011). The number of parallel trials
is the number of processes. Each trial is a policy file, and is simulated like other policy files. Trials are stored in
a journal in the directory of the policy, so that a stopped search can continue. With one process, a repeated search
gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import yaml

from phalanx.cli.files.policy_file import SUFFIXES
from phalanx.cli.study.simulation.cells import Cell, CellOutcome, run_all
from phalanx.cli.study.simulation.options import Tuning, seconds
from phalanx.cli.study.simulation.results import command, rows_of, table_rows, whole
from phalanx.cli.study.simulation.trace_source import workload_of
from phalanx.cli.terminal.output import counted, note, print_table
from phalanx.cli.terminal.progress import progress_bar
from phalanx.cli.terminal.stopping import stop_asked
from phalanx.errors import PhalanxError
from phalanx.model.pod import CPU

Settings: TypeAlias = dict[str, Any]  # the parameters of a trial, in Optuna's form
Progress: TypeAlias = Callable[[int], None]

BASELINES = ("easy", "easy-sjbf", "easy-learned")
OBJECTIVE, WAIT, FAIRNESS = "mean_bounded_slowdown", "max_wait_s", "jain_fairness"
FIRST: tuple[Settings, ...] = (
    {"backfillOrder": "shortest-learned", "order": "fifo"},
    {"backfillOrder": "shortest-learned", "order": "multifactor", "fairShare": 10_000.0, "maxAge": 5 * 86_400.0},
    {"backfillOrder": "shortest", "order": "multifactor", "fairShare": 1000.0, "maxAge": 86_400.0},
    {
        "backfillOrder": "shortest",
        "order": "multifactor",
        "maxAge": 20 * 86_400.0,
        "fairShare": 1.0,
        "size": 2000.0,
        "sizeRelativeToTime": True,
        "smallFirst": False,
    },
)
AGE = 1000.0  # the weight of age; the other weights are relative to this weight
HOUR_S, DAY_S = 3600.0, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a search. `wait_s`: the longest wait that a job may have, in seconds. `fairness`: the smallest
    acceptable value of Jain's index."""

    wait_s: float
    fairness: float

    def excess(self, measures: Mapping[str, Any]) -> float:
        """Return the factor by which the measures exceed the bounds; 1 if they are within the bounds."""
        wait_s, fairness = float(measures[WAIT]), float(measures[FAIRNESS])
        wait = wait_s / self.wait_s if self.wait_s > 0 else 1.0 + wait_s
        return max(1.0, wait) * max(1.0, self.fairness / max(1e-9, fairness))


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """The input of a search. `file`: the file for the result. `search`, `aside`: the cells, without a policy, for the
    first and the second part of the log. `jobs`: the numbers of jobs in these parts. `resource`: the resource in which
    the log measures jobs (CPUs or GPUs) and in which usage is billed. `wait_s`, `fairness`: the bounds; None for the
    values of `easy`."""

    file: Path
    trials: int
    search: Cell
    aside: Cell
    jobs: tuple[int, int]
    resource: str = CPU
    wait_s: float | None = None
    fairness: float | None = None

    @property
    def journal(self) -> Path:
        """Return the path of the file with the trials."""
        return self.file.with_name(f".{self.file.name}.trials")

    @property
    def played(self) -> int:
        """Return the number of jobs in all simulations of the search together."""
        return self.jobs[0] * (len(BASELINES) + self.trials) + self.jobs[1] * (len(BASELINES) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """The result of a search. `settings`: the settings of the best trial; None if no trial was completed. `trials`: the
    number of completed trials. `best`: the measures of the best trial on the first part of the log. `aside`: the
    outcomes of the baselines and of the best trial (the last one) on the second part."""

    settings: Settings | None
    trials: int
    bounds: Bounds | None
    best: Mapping[str, object] | None
    aside: Sequence[CellOutcome] = ()

    @property
    def within_bounds(self) -> bool:
        """Return True if the best trial is within the bounds."""
        return self.bounds is not None and self.best is not None and self.bounds.excess(self.best) <= 1.0


def tune(of_all: Cell, others: Sequence[str], asked: Tuning, processes: int) -> int:
    """Run `phalanx simulate --tune`: search, write the best settings, and print their measures. Return the exit code.
    `of_all`: a cell with the settings that all simulations share. `others`: the given options that --tune does not
    support. Raises PhalanxError."""
    if others:
        raise PhalanxError(
            f"--tune searches on one log, with one seed, and writes one file: leave out {', '.join(others)}"
        )
    plan = plan_of(of_all, asked)
    optuna()  # raises PhalanxError, before the first simulation, if Optuna is missing
    with stop_asked() as stopped, progress_bar(plan.played) as progress:
        found = tuned(plan, processes=processes, progress=progress, stopped=stopped)
        was_stopped = stopped()
    if found.settings is not None:
        with whole(plan.file) as part:
            part.write_text(written(plan, found, command()))
        if found.aside:
            print_table(*table_rows(rows_of(found.aside)))
        note(f"{plan.file} has the best of {counted(found.trials, 'trial')}, and its measures")
        if not found.within_bounds:
            note("no trial is within the bounds; this one exceeds them least. Try more --trials, or wider bounds")
    if was_stopped:
        note(f"stopped: the trials so far are kept in {plan.journal}; the same command continues the search")
    return 130 if was_stopped else 0


def plan_of(of_all: Cell, asked: Tuning) -> TuningPlan:
    """Return the plan of the search. `of_all`: a cell with the settings that all simulations share. Raises
    PhalanxError."""
    assert asked.tune is not None
    if asked.tune.suffix not in SUFFIXES:
        raise PhalanxError(f"--tune {asked.tune}: the name of a policy file ends with .yaml, .yml or .json")
    if not asked.tune.parent.is_dir():
        raise PhalanxError(f"--tune {asked.tune}: there is no folder {asked.tune.parent}")
    workload = workload_of(of_all.source, of_all.seed)
    jobs = len(workload.tasks)
    aside = round(jobs * asked.aside)
    if not 0 < aside < jobs:
        raise PhalanxError(f"{of_all.source.trace}: {counted(jobs, 'job')} cannot be split into two parts by --aside")
    cell = replace(of_all, estimates="user", keep=False, draw=False, fair_starts=0, compactions=0)
    return TuningPlan(
        file=asked.tune,
        trials=asked.trials,
        search=replace(cell, source=replace(of_all.source, first=jobs - aside)),
        aside=replace(cell, source=replace(of_all.source, first=jobs, skip=jobs - aside)),
        jobs=(jobs - aside, aside),
        resource=workload.counted,
        wait_s=None if asked.max_wait is None else seconds("--max-wait", asked.max_wait),
        fairness=asked.least_fairness,
    )


def optuna() -> Any:
    """Return the module optuna. Raises PhalanxError if it is not installed."""
    try:
        found = import_module("optuna")
    except ImportError:
        raise PhalanxError("--tune needs Optuna, which is not installed: pip install 'phalanx[tune]'") from None
    found.logging.set_verbosity(found.logging.ERROR)
    return found


def tuned(plan: TuningPlan, *, processes: int, progress: Progress, stopped: Callable[[], bool]) -> TuningResult:
    """Search for settings, simulate the best settings on the second part of the log, and return the result. Raises
    PhalanxError."""
    return TuningSearch(plan, processes, progress, stopped).run()


class TuningSearch:
    """A search. `over`: the number of jobs that were simulated until now, for the progress bar."""

    def __init__(self, plan: TuningPlan, processes: int, progress: Progress, stopped: Callable[[], bool]) -> None:
        self.plan, self.processes, self.progress, self.stopped = plan, processes, progress, stopped
        self.over = 0
        self.optuna = optuna()

    def run(self) -> TuningResult:
        known = self.play([replace(self.plan.search, policy=name) for name in BASELINES])
        if len(known) < len(BASELINES):
            return TuningResult(settings=None, trials=0, bounds=None, best=None)
        easy = known[0].measures
        bounds = Bounds(
            wait_s=easy[WAIT] if self.plan.wait_s is None else self.plan.wait_s,
            fairness=easy[FAIRNESS] if self.plan.fairness is None else self.plan.fairness,
        )
        study = self.study()
        self.over += self.plan.jobs[0] * len(self.whole(study))
        with TemporaryDirectory(prefix="phalanx-tune-") as folder:
            while not self.stopped() and (left := self.plan.trials - len(self.whole(study))) > 0:
                self.attempt(study, min(left, self.processes), Path(folder), bounds)
        return self.judged(study, bounds)

    def study(self) -> Any:
        """Return Optuna's study, which includes earlier trials of the same search."""
        storage = self.optuna.storages
        journal = storage.journal.JournalFileBackend(str(self.plan.journal))
        study = self.optuna.create_study(
            storage=storage.JournalStorage(journal),
            sampler=self.optuna.samplers.TPESampler(seed=self.plan.search.seed, constant_liar=True, n_startup_trials=8),
            study_name="phalanx",
            load_if_exists=True,
        )
        asked = repr((self.plan.search, self.plan.wait_s, self.plan.fairness))
        if study.user_attrs.setdefault("asked", asked) != asked:
            raise PhalanxError(
                f"{self.plan.journal} has the trials of another search: another log, cluster or bound. Remove it, or "
                "name another file with --tune."
            )
        if not study.trials:
            study.set_user_attr("asked", asked)
            for settings in FIRST:
                study.enqueue_trial(settings)
        return study

    def attempt(self, study: Any, count: int, folder: Path, bounds: Bounds) -> None:
        """Run `count` trials in parallel, and report their scores to the study."""
        trials, cells = [study.ask() for _ in range(count)], []
        for trial in trials:
            file = folder / f"trial-{trial.number}.yaml"
            file.write_text(yaml.safe_dump(policy_of(proposed(trial), self.plan.resource)))
            cells.append(replace(self.plan.search, policy=str(file)))
        played = {outcome.cell.policy: outcome.measures for outcome in self.play(cells)}
        for trial, cell in zip(trials, cells, strict=True):
            measures = played.get(cell.policy)
            if measures is None or measures["interrupted"]:
                study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
                continue
            for name in (OBJECTIVE, WAIT, FAIRNESS):
                trial.set_user_attr(name, measures[name])
            study.tell(trial, measures[OBJECTIVE] * bounds.excess(measures) ** 2)

    def whole(self, study: Any) -> list[Any]:
        """Return the completed trials."""
        return list(study.get_trials(states=(self.optuna.trial.TrialState.COMPLETE,), deepcopy=False))

    def judged(self, study: object, bounds: Bounds) -> TuningResult:
        """Return the result: the best trial, and the outcomes of the baselines and of this trial on the second part of
        the log."""
        whole = self.whole(study)
        if not whole:
            return TuningResult(settings=None, trials=0, bounds=bounds, best=None)
        best = min(whole, key=lambda trial: (bounds.excess(trial.user_attrs) > 1.0, trial.value))
        settings, measures = dict(best.params), dict(best.user_attrs)
        with TemporaryDirectory(prefix="phalanx-tune-") as folder:
            file = Path(folder) / f"{self.plan.file.stem}.yaml"
            file.write_text(yaml.safe_dump(policy_of(settings, self.plan.resource)))
            cells = [replace(self.plan.aside, policy=name) for name in (*BASELINES, str(file))]
            aside = [] if self.stopped() else self.play(cells)
        return TuningResult(settings=settings, trials=len(whole), bounds=bounds, best=measures, aside=aside)

    def play(self, cells: Sequence[Cell]) -> list[CellOutcome]:
        """Simulate the cells, and return the outcomes of the simulations that were not interrupted."""
        before = self.over

        def told(done: int) -> None:
            self.over = before + done
            self.progress(self.over)

        found = list(run_all(cells, processes=self.processes, progress=told, stopped=self.stopped))
        return [outcome for outcome in found if not outcome.measures["interrupted"]]


def proposed(trial: Any) -> Settings:
    """Return the settings that Optuna proposes for the trial."""
    found: Settings = {
        "backfillOrder": trial.suggest_categorical("backfillOrder", ["queue", "shortest", "shortest-learned"]),
        "order": trial.suggest_categorical("order", ["fifo", "multifactor"]),
    }
    if found["order"] == "multifactor":
        found["fairShare"] = trial.suggest_float("fairShare", 1.0, 100_000.0, log=True)
        found["size"] = trial.suggest_float("size", 1.0, 100_000.0, log=True)
        found["smallFirst"] = trial.suggest_categorical("smallFirst", [True, False])
        found["sizeRelativeToTime"] = trial.suggest_categorical("sizeRelativeToTime", [True, False])
        found["maxAge"] = trial.suggest_float("maxAge", HOUR_S, 30 * DAY_S, log=True)
        found["halfLife"] = trial.suggest_float("halfLife", HOUR_S, 60 * DAY_S, log=True)
    return found


def policy_of(settings: Settings, resource: str = CPU) -> dict[str, Any]:
    """Return a setup file with a policy with these settings and a single queue. All jobs are submitted to this queue,
    as for the baselines."""
    policy: dict[str, Any] = {"backfill": "easy", "backfillOrder": settings["backfillOrder"]}
    if settings["order"] == "multifactor":
        policy["factors"] = {
            "age": AGE,
            "maxAge": f"{settings['maxAge']:.0f}s",
            "fairShare": _rounded(settings["fairShare"]),
            "size": _rounded(settings["size"]),
            "smallFirst": settings["smallFirst"],
            "sizeRelativeToTime": settings["sizeRelativeToTime"],
        }
        policy["halfLife"] = f"{settings['halfLife']:.0f}s"
        if resource != CPU:
            policy["billing"] = {resource: 1.0}
    return {"flat": True, "policy": policy, "queues": [{"name": "default", "order": settings["order"]}]}


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def written(plan: TuningPlan, found: TuningResult, command: str) -> str:
    """Return the content of the policy file: the measures as comments, and the policy."""
    assert found.settings is not None
    assert found.bounds is not None
    assert found.best is not None
    lines = [
        f"Found by: {command}",
        f"Searched: the first {plan.jobs[0]:,} jobs of {plan.search.source.trace.name}, {found.trials} trials, for the",
        "least mean bounded slowdown with a longest wait of at most "
        f"{found.bounds.wait_s:,.0f} s and a Jain index of at least {found.bounds.fairness:.3f}.",
        f"There: {_evidence(found.best)}",
        *([] if found.within_bounds else ["No trial is within the bounds; this one exceeds them least."]),
    ]
    if found.aside:
        lines.append(f"On the {plan.jobs[1]:,} later jobs, which the search did not use:")
        lines += [f"  {outcome.measures['policy']}: {_evidence(outcome.measures)}" for outcome in found.aside]
    else:
        lines.append("The search was stopped before the settings were evaluated on the remaining jobs.")
    comments = "".join(f"# {' '.join(line.splitlines())}\n" for line in lines)
    policy = {"name": plan.file.stem, **policy_of(found.settings, plan.resource)}
    return comments + yaml.safe_dump(policy, sort_keys=False)


def _evidence(measures: Mapping[str, object]) -> str:
    return (
        f"mean bounded slowdown {measures[OBJECTIVE]:.2f}, longest wait {measures[WAIT]:,.0f} s, "
        f"Jain index {measures[FAIRNESS]:.3f}"
    )
