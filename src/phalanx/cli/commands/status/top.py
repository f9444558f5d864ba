"""`phalanx top`: show nodes, queues and jobs live, with keys that explain a job, show its log and cancel it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.live import Live
from rich.text import Text

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.target import Target, connected, find_ledger_of, require_namespace
from phalanx.cli.terminal.conversation import DOWN, QUIT, pressed_keys
from phalanx.cli.terminal.output import console, note, print_json, print_table
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.job import job_page
from phalanx.cli.views.job.job_view import JobView
from phalanx.cli.views.page.agents import ClusterAgent, user_of
from phalanx.cli.views.top_reading import see
from phalanx.cli.views.top_view import KEYS, TopPicture, header, screen, tables, text_screen
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError

_LEAST_S, _MOST_S = 1.0, 3600.0
_REFRESHED = ""  # this entry in the queue of keys stands for a new read of the cluster
_Look = Callable[[], Awaitable[tuple[TopPicture, Snapshot]]]


async def top(
    *,
    every: str = "2s",
    everybody: Annotated[bool, Parameter(name="--all")] = False,
    namespace: Annotated[str, Parameter(alias="-n", show_default=False)] = "",
    once: bool = False,
    json: bool = False,
    target: Target | None = None,
) -> None:
    """Show nodes, queues and your jobs live: the resources that they request, and the CPU and memory that they really
    use.

    GPU, CPU and MEMORY of a node are used/allocatable. `used` is the sum of the requests of the pods on the node. CPU
    USED and MEMORY USED are measured (metrics.k8s.io); a dash means that nothing is measured. If you may not list the
    pods of all users, you see only the jobs of your namespace, and `?` for the requests of other users.

    Keys: up and down choose a job; e explains the chosen job, l shows the end of its log, c cancels it if you confirm;
    q quits.

    For example:

        phalanx top
        phalanx top --all --every 5s
        phalanx top --once
        phalanx top --json | jq '.nodes[] | {node, measured}'

    Parameters
    ----------
    every
        The time between two refreshes of the screen, from 1s to 1h.
    everybody
        Show the jobs of all users, yours first.
    namespace
        Only jobs of this namespace. [default: all namespaces; if you may not list all jobs, the namespace of the
        kubeconfig's current context, else `default`]
    once
        Print everything once and exit. If the output is not a terminal, this is always done.
    json
        Print everything once as JSON, with cpu in millicores and all other amounts in whole units (bytes, GPUs).
    """
    every_s, ledger = _interval_s(every), find_ledger_of(target, os.environ)
    async with connected(target) as connection:
        user = await user_of(connection)

        async def look_again() -> tuple[TopPicture, Snapshot]:
            return await see(connection, user, namespace, everybody=everybody)

        if namespace:
            await require_namespace(connection, namespace)
        first = await look_again()
        terminal = console()
        if json:
            print_json(first[0].record())
        elif once or not (terminal.is_terminal and sys.stdin.isatty()) or terminal.is_dumb_terminal:
            _print(first[0])
        else:
            shown = ScreenState(*first, ClusterAgent(connection, ledger))
            await until_stopped(_attend(shown, look_again, terminal, every_s))


def _interval_s(every: str) -> float:
    """Return the time between two reads of the cluster, in seconds. Raises PhalanxError if `every` is invalid."""
    try:
        found = duration_s(every)
    except Misread as error:
        raise PhalanxError(f"--every: {error}") from None
    if not _LEAST_S <= found <= _MOST_S:
        raise PhalanxError(f"--every {every} is not between 1s and 1h: write for example 2s or 1m")
    return found


def _print(picture: TopPicture) -> None:
    """Print the tables of nodes, queues and jobs once, with all rows."""
    print(header(picture))
    for columns, rows, gives_way in tables(picture):
        print(flush=True)
        print_table(columns, rows, gives_way)
    if not picture.jobs:
        note("you have no running or waiting job; --all shows the jobs of all users")


# --- the screen and its keys --------------------------------------------------------------------------------------


async def _attend(shown: ScreenState, look_again: _Look, terminal: Console, every_s: float) -> None:
    """Show the screen and run the actions of the pressed keys, until `q`."""
    with pressed_keys(sys.stdin.fileno()) as keys, Live(console=terminal, screen=True, auto_refresh=False) as live:
        refreshing = asyncio.create_task(refresh(shown, look_again, keys, every_s))
        refreshing.add_done_callback(lambda _: keys.put_nowait(_REFRESHED))  # the task ends only because of a bug
        try:
            going = True
            while going:
                live.update(shown.draw(terminal.width, terminal.height), refresh=True)
                going = await shown.press(await keys.get())
                if refreshing.done():
                    refreshing.result()
        finally:
            refreshing.cancel()


async def refresh(shown: ScreenState, look_again: _Look, keys: asyncio.Queue[str], every_s: float) -> None:
    """Read the cluster every `every_s` seconds. If a read fails, the last picture stays on the screen, with a line
    about the error."""
    while True:
        await asyncio.sleep(every_s)
        try:
            shown.picture, shown.snapshot = await look_again()
            shown.trouble = ""
        except* PhalanxError as group:  # parallel requests may raise several errors
            shown.trouble = f"not refreshed: {_first(group)}"
        keys.put_nowait(_REFRESHED)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@dataclass(slots=True)
class ScreenState:
    """The state of the screen. `chosen`: the id of the chosen job. `position`: the job's last position in the table.
    `text`: a text that is shown instead of the tables; "" shows the tables. `from_end`: True if a text that is longer
    than the screen shows its last lines instead of its first lines. `asked`: the job that is cancelled if the next key
    is `y`. `said`: the result of the last action. `trouble`: the error of the last read."""

    picture: TopPicture
    snapshot: Snapshot
    agent: ClusterAgent
    chosen: str = ""
    position: int = 0
    text: str = ""
    from_end: bool = False
    asked: str = ""
    said: str = ""
    trouble: str = ""

    @property
    def job(self) -> JobView | None:
        """Return the chosen job. If this job no longer exists, return the job at its last position."""
        jobs = self.picture.jobs
        if not jobs:
            return None
        at = next((at for at, view in enumerate(jobs) if view.id == self.chosen), min(self.position, len(jobs) - 1))
        self.chosen, self.position = jobs[at].id, at
        return jobs[at]

    def draw(self, width: int, height: int) -> Text:
        """Return the content of the screen, for a terminal of this size in cells."""
        job = self.job
        if self.text:
            return text_screen(self.text, width, height, from_end=self.from_end)
        last = f"cancel {self.asked}? y/n" if self.asked else self.said or self.trouble or KEYS
        return screen(self.picture, -1 if job is None else self.position, width, height, last)

    async def press(self, key: str) -> bool:
        """Run the action of the key. Return False for the key that quits."""
        if key == _REFRESHED:
            return True
        if self.asked:
            self.asked, asked = "", self.asked
            self.said = await self._told(self.agent.act(asked, "cancel", 0)) if key == "y" else "nothing was cancelled"
            return True
        self.said = ""
        if key == QUIT:
            return False
        if self.text:
            self.text = ""
        elif (job := self.job) is not None:
            await self._press_on(key, job)
        return True

    async def _press_on(self, key: str, job: JobView) -> None:
        match key:
            case "up" | "down":
                self.position += 1 if key == DOWN else -1
                self.position = max(0, min(self.position, len(self.picture.jobs) - 1))
                self.chosen = self.picture.jobs[self.position].id
            case "e":
                self.text, self.from_end = job_page.page(job, self.snapshot), False
            case "l":
                self.text, self.from_end = await self._told(self._log(job.title)), True
            case "c":
                self.asked = job.title
            case _:
                pass

    async def _log(self, job: str) -> str:
        lines = await self.agent.output(job, "")
        several = len({label for _, label, _ in lines}) > 1
        shown = [f"[{label}] {text}" if several else text for _, label, text in lines]
        return "\n".join(shown) or f"{job} has written nothing yet"

    async def _told(self, work: Awaitable[str]) -> str:
        """Return the result of `work`, or the text of its error."""
        try:
            return await work
        except PhalanxError as error:
            return f"error: {error}"
