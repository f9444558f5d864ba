"""Build the screen of `phalanx top`, without side effects: a summary, and tables of nodes, queues and jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.text import Text

from phalanx.cli.terminal.output import table
from phalanx.cli.views import node_view, queue_view
from phalanx.cli.views.job import job_view
from phalanx.cli.views.job.job_view import JobView
from phalanx.cli.views.node_view import GPU, NodeView
from phalanx.cli.views.queue_view import QueueView
from phalanx.client.moment import write_moment
from phalanx.model.pod import CPU, MEMORY, Amount, format_amount

Use = tuple[int, int]  # the measured usage of CPU (millicores) and memory (bytes)
NODE_COLUMNS = ("NODE", "STATE", "GPU", "PODS", "CPU", "CPU USED", "MEMORY", "MEMORY USED")
JOB_COLUMNS = ("JOB", "USER", "QUEUE", "STATE", "PODS", "GPUS", "CPU USED", "MEMORY USED", "SINCE", "WHERE, OR WHY NOT")
JOBS_GIVE_WAY = ("SINCE", "QUEUE", "USER")
KEYS = "up/down choose   e explain   l log   c cancel   q quit"
BACK = "any other key goes back   q quit"
_WAITING = ("queued", "promised")
_LEAST_JOBS = 4  # the minimum number of rows for jobs on a terminal with few lines
_TEXT_LEAST = 24  # on a narrow terminal, other columns are left out until the last column has this width
_GAP = 3  # blanks between two columns
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TopPicture:
    """The data that the screen shows. `jobs`: the shown jobs, the user's own first. `own`: the ids of the user's own
    jobs. `partial`: True if the user may not list the pods of other users, so the requests of these pods are unknown.
    `node_use`, `job_use`: the measured usage by node and by job, where it is measured."""

    now_s: float
    user: str
    jobs: tuple[JobView, ...]
    own: frozenset[str]
    nodes: tuple[NodeView, ...]
    queues: tuple[QueueView, ...]
    partial: bool = False
    node_use: Mapping[str, Use] = field(default_factory=dict)
    job_use: Mapping[str, Use] = field(default_factory=dict)

    @property
    def totals(self) -> dict[str, int | None]:
        """Return the numbers of the first line; None for an unknown number. The numbers of jobs are sums over the root
        queues, which include their child queues."""
        roots = [view.standing for view in self.queues if not view.standing.depth]
        used: list[Amount] = [node.used.get(GPU, 0) for node in self.nodes]
        if self.partial:
            used = [one.used for root in roots for one in root.usage if one.resource == GPU]
        return {
            "running": sum(root.running for root in roots) if roots else None,
            "waiting": sum(root.pending for root in roots) if roots else None,
            "nodes_ready": sum(node.state == "ready" for node in self.nodes),
            "nodes": len(self.nodes),
            "gpus_used": int(sum(used)) if roots or not self.partial else None,
            "gpus": sum(node.allocatable.get(GPU, 0) for node in self.nodes),
        }

    def record(self) -> dict[str, Any]:
        """Return the record of the screen for `--json`; docs/guide/command-line.md describes its fields."""
        return {
            "at": write_moment(self.now_s),
            "user": self.user,
            "totals": self.totals,
            "nodes": [
                {**node.record(), "measured": _measured(self.node_use.get(node.name))}
                | ({"used": None, "used_by": None} if self.partial else {})
                for node in self.nodes
            ],
            "queues": [queue.record() for queue in self.queues],
            "jobs": [
                {**job.record(), "own": job.id in self.own, "measured": _measured(self.job_use.get(job.id))}
                for job in self.jobs
            ],
        }


def own_first(found: Sequence[JobView], user: str, namespace: str) -> tuple[list[JobView], frozenset[str]]:
    """Return the jobs, sorted so that the user's own come first, and the ids of the user's own jobs. A job in
    `namespace` without a known user counts as the user's own."""
    own = {view.id for view in found if view.user == user or (not view.user and view.namespace == namespace)}
    return sorted(found, key=lambda view: view.id not in own), frozenset(own)


def header(picture: TopPicture) -> str:
    """Return the first line of the screen."""
    number = {name: "?" if value is None else str(value) for name, value in picture.totals.items()}
    own = [view for view in picture.jobs if view.id in picture.own]
    waiting = sum(view.state in _WAITING for view in own)
    return (
        f"jobs: {number['running']} running, {number['waiting']} waiting; "
        f"yours: {len(own) - waiting} running, {waiting} waiting   "
        f"nodes: {number['nodes_ready']} of {number['nodes']} ready   "
        f"GPUs: {number['gpus_used']} of {number['gpus']} used"
    )


def node_row(view: NodeView, picture: TopPicture) -> list[str]:
    """Return the cells of the node's row, one for each of `NODE_COLUMNS`."""
    name, state, cpu, memory, gpu, pods, _ = node_view.row(view)
    if picture.partial:
        cpu, memory, gpu, pods = (_unknown(cell) for cell in (cpu, memory, gpu, pods))
    cpu_used, memory_used = use_cells(picture.node_use.get(view.name))
    return [name, state, gpu, pods, cpu, cpu_used, memory, memory_used]


def job_cells(view: JobView, picture: TopPicture) -> list[str]:
    """Return the cells of the job's row, one for each of `JOB_COLUMNS`."""
    row = view.row(None, picture.now_s)
    name, queue, state, pods, since, where = job_view.short_row(row, picture.now_s, with_namespace=True)
    return [
        name,
        view.user,
        queue,
        state,
        pods,
        str(view.gpus or ""),
        *use_cells(picture.job_use.get(view.id)),
        since,
        where,
    ]


def use_cells(use: Use | None) -> tuple[str, str]:
    """Return the used CPU and memory as Kubernetes writes amounts; dashes if nothing is measured."""
    if use is None:
        return "-", "-"
    cpu, memory = use
    return format_amount(CPU, cpu), format_amount(MEMORY, -(-memory // _MIB) * _MIB)


def tables(picture: TopPicture) -> Iterator[tuple[tuple[str, ...], list[list[str]], tuple[str, ...]]]:
    """Yield for each table with rows: its columns, its rows, and the columns that may be left out on a narrow
    terminal."""
    nodes = [node_row(view, picture) for view in picture.nodes]
    queues = [queue_view.row(view) for view in picture.queues]
    jobs = [job_cells(view, picture) for view in picture.jobs]
    shown = (
        (NODE_COLUMNS, nodes, ("PODS",)),
        (queue_view.COLUMNS, queues, queue_view.GIVES_WAY),
        (JOB_COLUMNS, jobs, JOBS_GIVE_WAY),
    )
    yield from (each for each in shown if each[1])


def screen(picture: TopPicture, selected: int, width: int, height: int, last: str = KEYS) -> Text:
    """Return the screen for a terminal of `width` by `height` cells. Each row has one line. Rows that do not fit are
    not shown. `selected`: the position of the chosen job; -1 if there is none. `last`: the text of the last line."""
    found = [Text(header(picture), "bold")]
    shown = list(tables(picture))
    rooms = _rooms([len(picture.nodes), len(picture.queues), len(picture.jobs)], height - 2 - 2 * len(shown))
    for columns, rows, gives_way in shown:
        is_jobs = columns is JOB_COLUMNS
        most = rooms[2] if is_jobs else rooms[0] if columns is NODE_COLUMNS else rooms[1]
        first = max(0, min(selected - most // 2, len(rows) - most)) if is_jobs else 0
        part = [[_printable(cell) for cell in row] for row in rows[first : first + most]]
        lines = list(table(*_narrowed(columns, part, gives_way, width)).split())
        if is_jobs and 0 <= selected - first < len(part):
            lines[1 + selected - first].stylize("reverse")
        cut = f"rows {first + 1} to {first + len(part)} of {len(rows)}:" if len(part) < len(rows) else ""
        found += [Text(cut, "dim"), *lines]
    if not picture.jobs:
        found += [Text(), Text("you have no jobs; --all shows the jobs of all users", "dim")]
    return _filled(found, width, height, last)


def text_screen(text: str, width: int, height: int, *, from_end: bool = False) -> Text:
    """Return a screen that shows a text instead of the tables. If the text does not fit, the screen shows its first
    lines or, with `from_end`, its last lines. Control characters become blanks."""
    lines = [part for line in text.splitlines() or ["nothing"] for part in chop_cells(_printable(line), width) or [""]]
    room = max(1, height - 1)
    return _filled([Text(line) for line in (lines[-room:] if from_end else lines[:room])], width, height, BACK)


def _rooms(rows: Sequence[int], room: int) -> list[int]:
    """Divide the lines of the screen among the tables, and return the numbers of rows for nodes, queues and jobs. Jobs
    get at least half of the lines if they need that many. `rows`: the number of rows of each table. `room`: the number
    of lines."""
    nodes, queues, jobs = rows
    beside = max(2, room - min(jobs, max(_LEAST_JOBS, room // 2)))
    queues_shown = min(queues, max(beside // 2, beside - nodes))
    nodes_shown = min(nodes, beside - queues_shown)
    return [nodes_shown, queues_shown, min(jobs, max(1, room - nodes_shown - queues_shown))]


def _narrowed(
    columns: Sequence[str], rows: Sequence[Sequence[str]], gives_way: Sequence[str], width: int
) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows of the table without the columns for which the terminal is too narrow.
    `gives_way`: the columns that may be left out, the least important first."""
    kept = list(range(len(columns)))
    widths = [max(cell_len(row[at]) for row in (columns, *rows)) for at in kept]
    widths[-1] = min(widths[-1], _TEXT_LEAST)
    for name in gives_way:
        if sum(widths[at] + _GAP for at in kept) - _GAP > width:
            kept.remove(columns.index(name))
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _filled(lines: Sequence[Text], width: int, height: int, last: str) -> Text:
    """Return the lines of the whole terminal, with `last` as the last one. Lines that are too wide are shortened and
    end with an ellipsis."""
    room = max(1, height - 1)
    found = [*lines[:room], *(Text() for _ in range(room - len(lines))), Text(last, "reverse")]
    for line in found:
        line.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True).join(found)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _unknown(cell: str) -> str:
    """Return a cell used/allocatable with `?` instead of the used amount, which is unknown."""
    return cell if cell == "-" else f"?/{cell.partition('/')[2]}"


def _measured(use: Use | None) -> dict[str, int] | None:
    return None if use is None else {CPU: use[0], MEMORY: use[1]}
