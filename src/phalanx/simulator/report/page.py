"""The report: one self-contained HTML page about one or more schedules.

The page first compares the policies in a table and in a chart of the waits. Then it has a part for each policy, which
shows the use of the cluster over time by queue; the amount and the number of waiting jobs; a Gantt chart of a part of
the schedule (one row for each node); and the jobs with the highest slowdown, with the reasons why they waited. The page
loads nothing, has no script, and escapes every name from a trace.

The module also has the style sheet of the page. The style sheet follows the reader's preference for a light or a dark
page, and is suitable for printing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from phalanx.simulator.report.chart import (
    Axes,
    curve,
    duration,
    level,
    linear,
    logarithmic,
    rectangle,
    round_ticks,
    stacked,
    stairs,
    svg,
    time_ticks,
)
from phalanx.simulator.report.picture import BINS, Picture, Worst

# Nine colours for a light and nine for a dark background. Most colour-blind readers can distinguish them: the palette
# of Okabe and Ito, and two more colours.
LIGHT = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#7f7fbf", "#9a9a9a")
DARK = ("#4aa8e0", "#f0b840", "#3cc79e", "#e29ac2", "#8bd0f5", "#f08a4b", "#d8c94a", "#a5a5e0", "#7c7c7c")


def colours(palette: tuple[str, ...]) -> str:
    return "".join(f"--p{at}:{colour};" for at, colour in enumerate(palette))


CLASSES = "".join(
    f".c{at}{{fill:var(--p{at})}}.l{at}{{stroke:var(--p{at})}}.k{at}{{background:var(--p{at})}}"
    for at in range(len(LIGHT))
)

STYLE = f"""
:root{{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--ground:#fff;--panel:#f6f7f9;--rule:#dde2e8;
{colours(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{
--ink:#e6e9ee;--soft:#9aa5b4;--ground:#12161c;--panel:#1a2028;--rule:#2c3541;{colours(DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:1080px;padding:28px 20px 60px;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}}
h1{{font-size:26px;margin:0 0 4px}}h2{{font-size:19px;margin:40px 0 6px}}h3{{font-size:15px;margin:18px 0 2px}}
p{{margin:4px 0 10px;color:var(--soft);max-width:75ch}}
figure{{margin:8px 0 14px;padding:10px 10px 4px;background:var(--panel);border:1px solid var(--rule);border-radius:8px;
overflow-x:auto}}
figcaption{{font-weight:600;padding:0 4px 4px}}
svg{{display:block;width:100%;min-width:640px;height:auto}}
.grid{{stroke:var(--rule);stroke-width:1}}.tick{{fill:var(--soft);font-size:11.5px}}
.level{{stroke:var(--soft);stroke-width:1;stroke-dasharray:5 4}}
polyline{{fill:none;stroke-width:2;stroke-linejoin:round}}
.look rect{{stroke:var(--panel);stroke-width:.4}}
.keys{{display:flex;flex-wrap:wrap;gap:4px 16px;padding:2px 4px 8px;color:var(--soft);font-size:13px}}
.keys i{{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}}
th{{text-align:right;font-weight:600;color:var(--soft);border-bottom:1px solid var(--rule);padding:5px 8px}}
td{{text-align:right;border-bottom:1px solid var(--rule);padding:5px 8px;vertical-align:top;white-space:nowrap}}
th:first-child,td:first-child,td.text,th.text{{text-align:left}}
td.best{{font-weight:700}}td.text{{min-width:220px;white-space:normal;overflow-wrap:anywhere}}
footer{{margin-top:44px;color:var(--soft);font-size:13px}}
@media print{{figure{{break-inside:avoid}}}}
{CLASSES}
"""


# The columns of the table that compares policies: (heading, name of the measure, format, True if a lower value is
# better).
MEASURES = (
    ("jobs finished", "finished", "{:,.0f}", False),
    ("mean wait", "mean_wait_s", "duration", True),
    ("p95 wait", "p95_wait_s", "duration", True),
    ("mean completion", "mean_jct_s", "duration", True),
    ("mean bounded slowdown", "mean_bounded_slowdown", "{:,.2f}", True),
    ("median", "median_bounded_slowdown", "{:,.2f}", True),
    ("used", "utilisation", "{:.1%}", False),
    ("lost capacity", "loss_of_capacity", "{:.1%}", True),
    ("Jain fairness", "jain_fairness", "{:.3f}", False),
    ("makespan", "makespan_s", "duration", True),
)
IF_ANY = (
    ("deadlines missed", "deadline_miss_ratio", "{:.1%}", True),
    ("value attained", "value_attained_ratio", "{:.1%}", False),
    ("fair start missed", "fair_start_miss_ratio", "{:.1%}", True),
    ("could be packed into", "compacted_cell_ratio", "{:.1%}", True),
)
CDF_TICKS_S = ((1, "none"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (21600, "6 h"), (86400, "1 d"))
LONG_TICKS_S = ((604800, "7 d"), (2592000, "30 d"))
UNITS = {"cpu": "processors", "nvidia.com/gpu": "GPUs"}
TALL, LOW, ROW = 260.0, 150.0, 22.0
LINES = 9


def page(pictures: Sequence[Picture], rows: Sequence[Mapping[str, object]], *, made_by: str) -> str:
    """Return the page. `rows`: the measures of each picture's schedule, in the same order. `made_by`: the command that
    made the page, which is shown in the footer."""
    trace = ", ".join(dict.fromkeys(each.trace for each in pictures)) or "nothing"
    pictures = told_apart(pictures)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(trace)}: what each policy makes of it</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(trace)}</h1>",
        *opening(pictures),
        comparison(pictures, rows),
        waits_chart(pictures),
        queues_chart(pictures),
        *(part for each in pictures for part in portrait(each, longest(pictures))),
        f"<footer>Made by <code>{escape(made_by)}</code>. Times are counted from the first submission; times of day in "
        "reasons are the trace's, whose second 0 counts as midnight UTC.</footer>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def told_apart(pictures: Sequence[Picture]) -> Sequence[Picture]:
    """Return the pictures. If the pictures are of several traces, put the name of the trace in front of each title, so
    that readers can tell the pictures apart."""
    if len({each.trace for each in pictures}) < 2:
        return pictures
    return [replace(each, title=f"{each.trace}: {each.title}") for each in pictures]


def opening(pictures: Sequence[Picture]) -> Iterator[str]:
    clusters = dict.fromkeys(f"{each.capacity:,.0f} {UNITS.get(each.counted, each.counted)}" for each in pictures)
    lengths = sorted(each.until_s - each.since_s for each in pictures)
    if pictures:
        spans = dict.fromkeys((duration(lengths[0]), duration(lengths[-1])))
        count = "1 run" if len(pictures) == 1 else f"{len(pictures)} runs"
        yield f"<p>{escape(' or '.join(clusters))}, {' to '.join(spans)} from the first submission to the last end. "
        yield f"{count}; hover over a part to see its name.</p>"


def longest(pictures: Sequence[Picture]) -> float:
    """Return the length of the longest schedule in seconds. The length is the time scale of all charts, so that readers
    can compare the charts."""
    return max((each.until_s - each.since_s for each in pictures), default=0.0)


def comparison(pictures: Sequence[Picture], rows: Sequence[Mapping[str, object]]) -> str:
    measures = (*MEASURES, *(each for each in IF_ANY if any(each[1] in row for row in rows)))
    heads = "".join(f"<th>{escape(heading)}</th>" for heading, *_ in measures)
    rivals: dict[str, list[Mapping[str, object]]] = {}
    for each, row in zip(pictures, rows, strict=True):
        rivals.setdefault(each.trace, []).append(row)
    best = {
        (trace, name): best_of(of, name, less=less) for trace, of in rivals.items() for _, name, _, less in measures
    }
    body = []
    for each, row in zip(pictures, rows, strict=True):
        cells = "".join(cell(row, name, form, best[each.trace, name]) for _, name, form, _ in measures)
        body.append(f"<tr><td>{escape(each.title)}</td>{cells}</tr>")
    table = f"<table><thead><tr><th>policy</th>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<h2>Policy against policy</h2><div class="scroll">{table}</div>'


def best_of(rows: Sequence[Mapping[str, Any]], name: str, *, less: bool) -> float | None:
    """Return the best value of a measure among all rows; None if all values are equal. `less`: whether a lower value is
    better."""
    values: list[float] = [row[name] for row in rows if isinstance(row.get(name), int | float)]
    if len(set(values)) < 2:
        return None
    return min(values) if less else max(values)


def cell(row: Mapping[str, object], name: str, form: str, best: float | None) -> str:
    value = row.get(name)
    if not isinstance(value, int | float):
        return "<td>-</td>"
    text = duration(value) if form == "duration" else form.format(value)
    return f'<td class="best">{text}</td>' if value == best else f"<td>{text}</td>"


def waits_chart(pictures: Sequence[Picture]) -> str:
    longest = max((each.waits[-1] for each in pictures if each.waits), default=1.0)
    ticks = [(at_s, label) for at_s, label in (*CDF_TICKS_S, *LONG_TICKS_S) if at_s <= max(longest, 10.0)]
    axes = Axes(
        height=TALL,
        x=logarithmic(longest),
        y=linear(0, 1),
        x_ticks=ticks,
        y_ticks=[(part / 4, f"{part * 25} %") for part in range(5)],
    )
    lines = []
    for at, each in enumerate(pictures[:LINES]):
        last = max(len(each.waits) - 1, 1)
        lines.append(curve(axes, [(value, rank / last) for rank, value in enumerate(each.waits)], at, each.title))
    keys = legend([each.title for each in pictures[:LINES]])
    caption = "How many of the jobs waited at most so long"
    return (
        f"<figure><figcaption>{caption}</figcaption>{keys}{svg(TALL, axes.frame() + ''.join(lines), caption)}</figure>"
    )


def queues_chart(pictures: Sequence[Picture]) -> str:
    """Return a chart with the number of waiting jobs under each policy; an empty text if there is only one policy,
    because the policy's own chart shows the same."""
    if len(pictures) < 2:
        return ""
    drawn = pictures[:LINES]
    top = max((value for each in drawn for value in each.queued), default=1.0) * 1.06 or 1.0
    axes = over_time(longest(pictures), LOW, top)
    lines = [stairs(axes, edges(each), each.queued, at, each.title) for at, each in enumerate(drawn)]
    keys = legend([each.title for each in drawn])
    caption = "How many jobs waited"
    return (
        f"<figure><figcaption>{caption}</figcaption>{keys}{svg(LOW, axes.frame() + ''.join(lines), caption)}</figure>"
    )


def portrait(each: Picture, span_s: float) -> Iterator[str]:
    yield f"<h2>{escape(each.title)}</h2>"
    yield use_chart(each, span_s)
    yield queue_chart(each, span_s)
    if each.look.bars:
        yield look_chart(each)
    if each.worst:
        yield "<h3>Treated worst</h3>" + worst_table(each.worst)
    if each.never:
        yield f"<h3>Never ran: {each.never_count:,}</h3>" + worst_table(each.never)


def use_chart(each: Picture, span_s: float) -> str:
    unit = UNITS.get(each.counted, each.counted)
    top = max([each.capacity, *(sum(column) for column in zip(*each.used, strict=True))], default=1.0) * 1.06
    axes = over_time(span_s, TALL, top)
    body = axes.frame() + stacked(axes, edges(each), each.used, each.parties)
    body += level(axes, each.capacity, f"{each.capacity:,.0f} {unit}")
    caption = f"{unit[:1].upper()}{unit[1:]} in use"
    return (
        f"<figure><figcaption>{escape(caption)}</figcaption>{legend(each.parties)}{svg(TALL, body, caption)}</figure>"
    )


def queue_chart(each: Picture, span_s: float) -> str:
    axes = over_time(span_s, LOW, max(each.queued, default=1.0) * 1.06 or 1.0)
    body = axes.frame() + stairs(axes, edges(each), each.queued, 5, "jobs waiting")
    return figure("Jobs waiting", svg(LOW, body, "Jobs waiting over time"))


def look_chart(each: Picture) -> str:
    look, rows = each.look, len(each.look.nodes)
    span_s = max(look.until_s - look.since_s, 1e-9)
    row = max(ROW, 260.0 / rows)
    height = row * rows + 40
    offset_s = look.since_s - each.since_s
    axes = Axes(
        height=height,
        x=linear(0, span_s),
        y=linear(rows, 0),
        x_ticks=[(at_s, f"+{label}" if at_s else f"at {duration(offset_s)}") for at_s, label in time_ticks(span_s)],
        y_ticks=[(at + 0.5, shortened(name)) for at, name in enumerate(look.nodes)],
    )
    bars = [
        rectangle(axes, start - look.since_s, end - look.since_s, at + 1 - 0.92 * low, at + 1 - 0.92 * high, hue, job)
        for at, start, end, low, high, hue, job in look.bars
    ]
    shown = f", {rows} of {look.all_nodes} nodes" if look.all_nodes > rows else ""
    caption = f"A closer look, node by node: {duration(span_s)}{shown}"
    body = axes.frame() + "".join(bars)
    return figure(caption, svg(height, body, caption), kind="look")


def figure(caption: str, body: str, kind: str = "chart") -> str:
    return f'<figure class="{kind}"><figcaption>{escape(caption)}</figcaption>{body}</figure>'


def worst_table(jobs: Sequence[Worst]) -> str:
    heads = "<th>job</th><th class='text'>queue or user</th><th>size</th><th>submitted</th><th>waited</th><th>ran</th>"
    body = "".join(
        f"<tr><td>{escape(job.job)}</td><td class='text'>{escape(job.party)}</td><td>{job.size:,g}</td>"
        f"<td>{duration(job.submitted_s)}</td><td>{duration(job.wait_s)}</td><td>{duration(job.run_s)}</td>"
        f"<td>{f'{job.slowdown:,.1f}' if job.slowdown else '-'}</td><td>{job.starts}</td>"
        f"<td class='text'>{escape(job.reason)}</td></tr>"
        for job in jobs
    )
    heads += "<th>bounded slowdown</th><th>starts</th><th class='text'>why it waited, when last looked at</th>"
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def legend(names: Sequence[str]) -> str:
    keys = "".join(f'<span><i class="k{at}"></i>{escape(name or "(none)")}</span>' for at, name in enumerate(names))
    return f'<div class="keys">{keys}</div>'


def over_time(span_s: float, height: float, top: float) -> Axes:
    return Axes(
        height=height,
        x=linear(0, span_s),
        y=linear(0, top),
        x_ticks=time_ticks(span_s),
        y_ticks=[(tick, f"{tick:,g}") for tick in round_ticks(top)],
    )


def edges(each: Picture) -> list[float]:
    span_s = each.until_s - each.since_s
    return [at * span_s / BINS for at in range(BINS + 1)]


def shortened(name: str, most: int = 8) -> str:
    return name if len(name) <= most else f"…{name[-most:]}"
