"""Charts as inline SVG. The charts need no script, scale with the page, and take their colours from the page's style
sheet, so they work in light and dark mode.

Each chart is drawn in a box of the width `WIDTH`. `Axes` maps values to positions and draws ticks. The CSS classes `c0`
… `c8` set the colours of areas, and `l0` … `l8` the colours of lines. The style sheet is in `page`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960.0, 64.0, 12.0, 10.0, 30.0
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The axes of a chart. `x`, `y`: functions that map a value to a position, from 0 (left or bottom) to 1 (right or
    top)."""

    height: float
    x: Scale
    y: Scale
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + self.x(x) * (WIDTH - LEFT - RIGHT)
        return across, TOP + (1 - self.y(y)) * (self.height - TOP - BOTTOM)

    def frame(self) -> str:
        parts = []
        floor_y = self.height - BOTTOM
        for value, label in self.y_ticks:
            _, y = self.at(0, value)
            parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
            )
        for value, label in self.x_ticks:
            x, _ = self.at(value, 0)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{floor_y:g}" y2="{floor_y + 5:g}"/>')
            parts.append(text(x, floor_y + 19, label, "middle"))
        return "".join(parts)


def svg(height: float, body: str, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(label, quote=True)}">{body}</svg>'


def stacked(axes: Axes, xs: Sequence[float], rows: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    """Return a chart of stacked areas, one for each row. `xs`: the edges of the bins. There is one edge more than there
    are bins. A row has one value for each bin."""
    below = [0.0] * (len(xs) - 1)
    parts = []
    for at, (row, name) in enumerate(zip(rows, names, strict=True)):
        above = [low + value for low, value in zip(below, row, strict=True)]
        edge = [*steps(axes, xs, above), *reversed(steps(axes, xs, below))]
        parts.append(f'<polygon class="c{at}" points="{points(edge)}"><title>{escape(name)}</title></polygon>')
        below = above
    return "".join(parts)


def stairs(axes: Axes, xs: Sequence[float], values: Sequence[float], colour: int, name: str) -> str:
    line = points(steps(axes, xs, values))
    return f'<polyline class="l{colour}" points="{line}"><title>{escape(name)}</title></polyline>'


def curve(axes: Axes, places: Sequence[tuple[float, float]], colour: int, name: str) -> str:
    line = points([axes.at(x, y) for x, y in places])
    return f'<polyline class="l{colour}" points="{line}"><title>{escape(name)}</title></polyline>'


def rectangle(axes: Axes, left: float, right: float, low: float, high: float, colour: int, name: str) -> str:
    x, y = axes.at(left, high)
    far, bottom = axes.at(right, low)
    wide, tall = max(far - x, 0.4), max(bottom - y, 0.4)
    return (
        f'<rect class="c{colour}" x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{tall:.2f}">'
        f"<title>{escape(name)}</title></rect>"
    )


def level(axes: Axes, value: float, name: str) -> str:
    """Return a dashed horizontal line with a label."""
    _, y = axes.at(0, value)
    line = f'<line class="level" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + text(WIDTH - RIGHT, y - 4, name, "end")


def text(x: float, y: float, label: str, anchor: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(label)}</text>'


def steps(axes: Axes, xs: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    found = []
    for left, right, value in zip(xs[:-1], xs[1:], values, strict=True):
        found += [axes.at(left, value), axes.at(right, value)]
    return found


def points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def linear(low: float, high: float) -> Scale:
    width = (high - low) or 1.0
    return lambda value: (value - low) / width


def logarithmic(high: float) -> Scale:
    """Return a logarithmic scale from 1 to `high`. Values below 1 count as 1, so a wait of 0 is drawn at the left edge
    of the axis."""
    top = log10(max(high, 10.0))
    return lambda value: log10(max(value, 1.0)) / top


def round_ticks(high: float, count: int = 4) -> list[float]:
    """Return about `count` round numbers from 0 to `high`."""
    if high <= 0:
        return [0.0]
    rough = high / count
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [at * step for at in range(int(high / step + 1e-9) + 1)]


def time_ticks(span_s: float, count: int = 6) -> list[tuple[float, str]]:
    """Return about `count` ticks, as pairs (seconds since the beginning, label)."""
    unit_s, name = next(
        ((unit_s, name) for unit_s, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")) if span_s >= 3 * unit_s),
        (1.0, "s"),
    )
    return [(tick * unit_s, f"{tick:g} {name}") for tick in round_ticks(span_s / unit_s, count)]


def duration(seconds: float) -> str:
    """Return a duration as text, such as `3.2 d`, `1.5 h`, `12.0 min` or `40 s`."""
    for unit_s, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.1f} {name}"
    return f"{seconds:.0f} s"
