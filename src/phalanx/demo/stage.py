"""The output of the demo: a live table on a terminal, otherwise plain lines."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from phalanx.demo.timeline import Doing, bar
from phalanx.demo.trial import EXECUTORS, DemoPodState, Trial, TrialApplication

_COLOURS = {
    DemoPodState.WAITING: "yellow",
    DemoPodState.STARTING: "cyan",
    DemoPodState.RUNNING: "cyan",
    DemoPodState.SUCCEEDED: "green",
    DemoPodState.FAILED: "red",
}


class LiveStage:
    """A table that is redrawn in place; messages scroll above it."""

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
    """A line for each change."""

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
    """Return the scheduler's reason for the application's first waiting pod; empty if there is none."""
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
        return Text("not asked for yet", style="dim")
    states = [executor.state for executor in application.executors.values()]
    return Text(", ".join(states), style=_COLOURS[min(states, key=list(DemoPodState).index)])
