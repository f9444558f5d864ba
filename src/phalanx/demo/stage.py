"""The output of the demo: the timeline of each trial, and the progress of a running trial.

The first part draws the timeline of a trial with a bar for each application, for the terminal or as a picture. The
second part shows the progress: on a terminal as a table that is updated, otherwise as lines of text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from phalanx.demo.trial import EXECUTORS, DemoPodState, Trial, TrialApplication
from phalanx.errors import PhalanxError

SUFFIXES = (".svg", ".png", ".pdf")


class Doing(Enum):
    """The activity of an application during a span: its character, terminal style, colour in the picture, and
    meaning."""

    WAITS = (".", "dim", "#d9d9d9", "waits and holds nothing")
    HOLDS = ("!", "red", "#d1495b", "driver runs, executors do not")
    WORKS = ("#", "green", "#2e8b57", "driver and both executors count")

    @property
    def character(self) -> str:
        return self.value[0]

    @property
    def style(self) -> str:
        return self.value[1]

    @property
    def colour(self) -> str:
        return self.value[2]

    @property
    def meaning(self) -> str:
        return self.value[3]


@dataclass(frozen=True, slots=True)
class Span:
    """An activity from `start_s` to `end_s`, in seconds since the trial began."""

    doing: Doing
    start_s: float
    end_s: float


def spans(application: TrialApplication, trial_s: float) -> list[Span]:
    """Return the activities of the application until its end, or until the end of the trial (`trial_s`)."""
    driver = application.driver
    if driver is None:
        return [Span(Doing.WAITS, 0.0, trial_s)]
    ends = [at_s for at_s, state in driver.moments if state.over]
    end_s = ends[0] if ends else trial_s
    holds_s = driver.since(DemoPodState.RUNNING)
    holds_s = end_s if holds_s is None else holds_s
    works_s = application.working_since()
    works_s = end_s if works_s is None else works_s
    found = [Span(Doing.WAITS, 0.0, holds_s), Span(Doing.HOLDS, holds_s, works_s), Span(Doing.WORKS, works_s, end_s)]
    return [span for span in found if span.end_s > span.start_s]


def bar(application: TrialApplication, trial_s: float, scale_s: float, width: int) -> list[tuple[str, str]]:
    """Return (characters, style) pieces of a line. A line of `width` characters represents `scale_s` seconds."""
    pieces = []
    for span in spans(application, trial_s):
        first, last = (round(at_s / scale_s * width) for at_s in (span.start_s, span.end_s))
        pieces.append((span.doing.character * (last - first), span.doing.style))
    return [piece for piece in pieces if piece[0]]


def require_drawable(path: Path) -> None:
    """Check before the demo starts that a picture can be written to `path`. Raises PhalanxError if not."""
    if path.suffix.lower() not in SUFFIXES:
        raise PhalanxError(
            f"--timeline {path}: the name must end in one of {', '.join(SUFFIXES)}. Nothing was started."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        path.open("ab").close()
        if new:  # so that an interrupted demo leaves no empty file
            path.unlink()
    except OSError as error:
        raise PhalanxError(
            f"--timeline {path} cannot be written: {error.strerror}. Nothing was started. Name another file."
        ) from error


def draw(trials: list[tuple[str, Trial]], path: Path) -> None:
    """Write the bars of all trials as a picture; the suffix of `path` sets the format (.svg, .png, .pdf).

    Raises PhalanxError if the file cannot be written."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams.update({"svg.hashsalt": "phalanx", "svg.fonttype": "path", "font.size": 9})
    from matplotlib import pyplot

    figure, every = pyplot.subplots(1, len(trials), figsize=(9.6, 2.9), sharey=True, layout="constrained")
    for axes, (title, trial) in zip(every, trials, strict=True):
        _bars(axes, title, trial)
    handles = [mpl.patches.Patch(color=doing.colour, label=doing.meaning) for doing in Doing]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise PhalanxError(
            f"cannot write the timeline to {path}: {error}. Name another file with --timeline."
        ) from error
    finally:
        pyplot.close(figure)


def _bars(axes: Any, title: str, trial: Trial) -> None:
    names = list(trial.applications)
    for row, application in enumerate(trial.applications.values()):
        for span in spans(application, trial.seconds):
            axes.barh(row, span.end_s - span.start_s, left=span.start_s, color=span.doing.colour, height=0.62)
    axes.set_yticks(range(len(names)), names)
    if not axes.yaxis_inverted():  # the axis is shared, so it is inverted only once
        axes.invert_yaxis()
    axes.set_xlim(0, max(trial.seconds, 1.0))
    axes.set_xlabel("seconds")
    axes.set_title(title, fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


# --- progress ---------------------------------------------------------------------------------------------------------

_COLOURS = {
    DemoPodState.WAITING: "yellow",
    DemoPodState.STARTING: "cyan",
    DemoPodState.RUNNING: "cyan",
    DemoPodState.SUCCEEDED: "green",
    DemoPodState.FAILED: "red",
}


class LiveStage:
    """The output on a terminal: a table that is updated in place, with messages above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def say(self, text: str) -> None:
        self._close()
        self._console.print(Text(text, style="bold"))

    def show(self, trial: Trial) -> None:
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=8)
            self._live.start()
        self._live.update(Group(table(trial), Text(headline(trial), style="dim")))

    def end_of(self, trial: Trial) -> None:
        self._close()
        self._console.print(Text(conclusion(trial), style="bold red" if trial.deadlocked else "bold green"))
        self._console.print()

    def _close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class PlainStage:
    """The output to a file or a pipe: a line for each change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    def say(self, text: str) -> None:
        self._print(text)

    def show(self, trial: Trial) -> None:
        line = headline(trial)
        if line != self._last:
            self._last = line
            self._print(f"{trial.seconds:6.1f} s  {line}")

    def end_of(self, trial: Trial) -> None:
        self._print(conclusion(trial))

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class SilentStage:
    """No output, for `--json`."""

    def say(self, text: str) -> None: ...

    def show(self, trial: Trial) -> None: ...

    def end_of(self, trial: Trial) -> None: ...


def table(trial: Trial) -> Table:
    """Return a table of the applications with their present state."""
    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("APPLICATION", "DRIVER", "EXECUTORS", "WHAT IT WAITS FOR"):
        found.add_column(column, no_wrap=column != "WHAT IT WAITS FOR", overflow="fold")
    for application in trial.applications.values():
        found.add_row(application.name, _driver(application), _executors(application), why(application))
    return found


def why(application: TrialApplication) -> str:
    """Return the scheduler's reason for the first pending pod of the application; "" if there is none."""
    return next((pod.why for pod in application.pods if pod.state is DemoPodState.WAITING and pod.why), "")


def headline(trial: Trial) -> str:
    running = sum(application.working_since() is not None and not application.over for application in _all(trial))
    return (
        f"{trial.held} of {trial.cpus} CPUs held, {trial.idle_drivers} drivers without executors, "
        f"{trial.waiting_executors} executors waiting, {running} applications at work, {trial.finished} finished"
    )


def conclusion(trial: Trial) -> str:
    if trial.deadlocked:
        return (
            f"Deadlock: all {trial.cpus} CPUs hold {trial.idle_drivers} drivers, each waits for {EXECUTORS} executors, "
            f"the {trial.waiting_executors} executors wait for a CPU, and nothing has moved for "
            f"{trial.seconds - trial.changed_s:.0f} s. {trial.finished} of {len(trial.applications)} finished."
        )
    return f"{trial.finished} of {len(trial.applications)} finished in {trial.seconds:.1f} s."


def bars(trials: list[tuple[str, Trial]], width: int) -> Text:
    """Return the timeline for the terminal, `width` characters wide."""
    scale_s = max(trial.seconds for _, trial in trials)
    found = Text()
    for title, trial in trials:
        found.append(f"{title}, {trial.seconds:.1f} s\n", style="bold")
        for application in _all(trial):
            found.append(f"  {application.name:8}")
            for characters, style in bar(application, trial.seconds, scale_s, width - 22):
                found.append(characters, style=style)
            found.append(" finished\n" if application.finished else " unfinished\n")
    for doing in Doing:
        found.append(f"  {doing.character} ", style=doing.style)
        found.append(f"{doing.meaning}\n")
    return found


def _all(trial: Trial) -> list[TrialApplication]:
    return list(trial.applications.values())


def _driver(application: TrialApplication) -> Text:
    state = application.driver.state if application.driver else DemoPodState.WAITING
    return Text(state, style=_COLOURS[state])


def _executors(application: TrialApplication) -> Text:
    if not application.executors:
        return Text("not created yet", style="dim")
    states = [executor.state for executor in application.executors.values()]
    return Text(", ".join(states), style=_COLOURS[min(states, key=list(DemoPodState).index)])
