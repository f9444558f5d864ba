"""Show a progress bar for a long command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:,.0f} {self._what}/s")


@contextmanager
def progress_bar(total: int, what: str = "jobs") -> Iterator[Callable[[int], None]]:
    """Show a progress bar with rate and remaining time on standard error, if that is a terminal. Yield a function that
    takes the number of finished items. `what`: the plural noun for these items."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + what), BarColumn(), _Rate(what))
    with Progress(
        *columns, TimeRemainingColumn(), console=screen, disable=not screen.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
