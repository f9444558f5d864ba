"""One bar for all that is played, side by side or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:,.0f} jobs/s")


@contextmanager
def progress_bar(jobs: int) -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left, on a terminal only, and never where results go."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.completed:,.0f} of {task.total:,.0f} jobs"), BarColumn(), _Rate())
    with Progress(
        *columns, TimeRemainingColumn(), console=screen, disable=not screen.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("", total=jobs)
        yield lambda done: bar.update(task, completed=done)
