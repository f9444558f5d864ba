"""The report: a page that needs nothing but itself, and shows what the schedules say."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from phalanx.cli.study.simulation.cells import Cell, CellOutcome, run
from phalanx.cli.study.simulation.trace_source import TraceSource
from phalanx.simulator.report.page import longest, opening, page
from phalanx.simulator.report.picture import Picture

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HEADER = "; MaxProcs: 4\n"


def line(number: int, submit_s: int, run_s: int, procs: int, user: int = 1) -> str:
    return f"{number} {submit_s} -1 {run_s} {procs} -1 -1 {procs} {run_s} -1 1 {user} 1 1 1 1 -1 -1\n"


def played(folder: Path, *lines: str, policy: str = "fifo") -> CellOutcome:
    trace = folder / "log.swf"
    trace.write_text(HEADER + "".join(lines))
    return run(Cell(source=TraceSource(trace=trace), policy=policy, estimates="user", seed=0, draw=True))


def drawn(outcome: CellOutcome) -> Picture:
    assert outcome.picture is not None
    return outcome.picture


class Tags(HTMLParser):
    """Checks that what is opened is closed, and collects addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_policies_are_drawn_on_one_scale_of_time(tmp_path: Path) -> None:
    lines = [line(1, 0, 100, 3), line(2, 0, 100, 4), line(3, 0, 100, 1)]
    pictures = [drawn(played(tmp_path, *lines, policy=policy)) for policy in ("fifo", "greedy")]
    spans = [picture.until_s - picture.since_s for picture in pictures]
    assert (spans, longest(pictures)) == ([300, 200], 300)
    assert "3.3 min to 5.0 min from the first submission" in "".join(opening(pictures))


def test_of_several_traces_each_picture_says_whose_it_is(tmp_path: Path) -> None:
    outcome = played(tmp_path, line(1, 0, 100, 3))
    pictures = [replace(drawn(outcome), trace=name) for name in ("monday.swf", "tuesday.swf")]
    text = page(pictures, [outcome.measures] * 2, made_by="phalanx simulate")
    assert "<h1>monday.swf, tuesday.swf</h1>" in text
    assert "<h2>tuesday.swf: fifo (user)</h2>" in text


def test_the_best_is_that_of_the_policies_of_one_trace(tmp_path: Path) -> None:
    pictures, rows = [], []
    for name, waits_s in (("short.swf", (5.0, 7.0)), ("long.swf", (700.0, 500.0))):
        picture = replace(drawn(played(tmp_path, line(1, 0, 10, 4))), trace=name)
        pictures += [picture, picture]
        rows += [{"mean_wait_s": wait_s} for wait_s in waits_s]
    assert re.findall('<td class="best">(.*?)</td>', page(pictures, rows, made_by="")) == ["5 s", "8.3 min"]


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    outcomes = [played(tmp_path, line(1, 0, 100, 4), line(2, 0, 100, 2), policy=name) for name in ("fifo", "easy")]
    text = page([drawn(each) for each in outcomes], [each.measures for each in outcomes], made_by="phalanx simulate")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.addresses == []
    assert "<script" not in text
    assert "url(" not in text
    assert len(re.findall("<svg", text)) == 2 + 2 * 3
    assert "prefers-color-scheme:dark" in text


def test_names_of_a_trace_cannot_become_markup(tmp_path: Path) -> None:
    outcome = played(tmp_path, line(1, 0, 100, 4))
    text = page([drawn(outcome)], [outcome.measures], made_by="<script>alert(1)</script>")
    assert "<script>" not in text


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (apt install chromium)")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_it(tmp_path: Path, dark: bool) -> None:
    """In light and in dark, on the ground that the reader prefers."""
    from matplotlib.image import imread  # a third of what importing all tests would take

    outcome = played(tmp_path, line(1, 0, 100, 4), line(2, 0, 100, 2))
    file, picture = tmp_path / "report.html", tmp_path / "report.png"
    file.write_text(page([drawn(outcome)], [outcome.measures], made_by="phalanx simulate"))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", scheme]
    asked = [str(CHROMIUM), *options, "--window-size=900,700", f"--screenshot={picture}", file.as_uri()]
    subprocess.run(asked, check=True, capture_output=True, timeout=240)
    pixels = imread(picture)
    assert (pixels[2, 2, :3].mean() < 0.2) == dark  # the corner is ground
    assert len({tuple(pixel) for pixel in pixels[::4, ::4, :3].reshape(-1, 3).round(2).tolist()}) > 10
