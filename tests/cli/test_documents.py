"""Documents that would go out of date by themselves: they are held against what they speak of.

The blocks of docs/guide/command-line.md are the commands' help, word for word.

`PHALANX_REWRITE=1 pytest tests/cli/test_documents.py` writes them anew; read the difference."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from phalanx.cli.app import build
from phalanx.cli.commands.overview import COMMANDS, import_path, overview
from phalanx.dialects.schema.queue import read_queue

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "command-line.md"
BLOCK = re.compile(r"(<!-- help: (?P<command>[a-z-]*) -->\n```text\n)(?P<text>.*?)(```\n)", re.DOTALL)


@cache
def help_of(command: str, width: int = 100) -> str:
    if not command:
        return overview().strip() + "\n"
    # A command with subcommands is one object of its module. An application of another test may have changed its help.
    sys.modules.pop(import_path(command).partition(":")[0], None)
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as printed:
        build(command)([command, "--help"], console=console, result_action="return_value")
    return "\n".join(line.rstrip() for line in printed.get().splitlines()).strip() + "\n"


@pytest.mark.slow
def test_the_page_shows_each_help_as_it_is() -> None:
    page = PAGE.read_text()
    now = BLOCK.sub(lambda found: found[1] + help_of(found["command"]) + found[4], page)
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    assert page == now, "the help has changed: PHALANX_REWRITE=1 .venv/bin/pytest tests/cli/test_documents.py"


def test_no_command_is_left_out() -> None:
    page = PAGE.read_text()
    assert [command for command in ("", *COMMANDS) if f"<!-- help: {command} -->" not in page] == []


def test_every_dependency_has_its_reason() -> None:
    lines = (ROOT / "requirements.in").read_text().splitlines()
    named = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    page = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text()
    assert set(re.findall(r"^\| ([A-Za-z0-9_-]+) \|", page, re.MULTILINE)) - {"library"} == named


PAGES = [
    path.relative_to(ROOT) for glob in ("*.md", "docs/**/*.md", "examples/**/*.md") for path in sorted(ROOT.glob(glob))
]


LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    assert [f"{page}: {link}" for page in PAGES for link in wrong_links(ROOT / page)] == []


def wrong_links(page: Path) -> Iterator[str]:
    """Yield the links of a page to files and headings that do not exist."""
    for target, anchor in LINK.findall(page.read_text()):
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            yield f"{target}#{anchor}" if anchor else target


PACKAGES = {path.name for path in (ROOT / "src" / "phalanx").iterdir() if path.is_dir()}


def modules(page: str) -> set[Path]:
    """Return the files that a page names, as `core/decide.py` or with what they define, as `core.decide.decide`."""
    paths = {Path(name) for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", page)}
    dotted = (name.split(".") for name in re.findall(r"`(?:phalanx\.)?([a-z]+(?:\.[A-Za-z_]+)+)`", page))
    return paths | {Path(*parts) for parts in dotted if parts[0] in PACKAGES}


def is_there(path: Path) -> bool:
    """Return whether the tree has the file, or for a dotted name one of the modules and packages that lead to it."""
    roots = (ROOT, ROOT / "src" / "phalanx")
    if path.suffix == ".py":
        return any((root / path).exists() for root in roots)
    return any((roots[1] / each).with_suffix(".py").exists() for each in (path, path.parent))


def test_modules_that_a_page_names_exist() -> None:
    named = ((page, path) for page in PAGES for path in sorted(modules((ROOT / page).read_text())))
    assert [f"{page}: {path}" for page, path in named if not is_there(path)] == []


def test_the_queue_of_the_readme_is_one() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    queues = [each for each in map(yaml.safe_load, blocks) if each["kind"] == "Queue"]
    assert [read_queue(each["metadata"]["name"], each["spec"]).parent for each in queues] == ["research"]


def test_each_line_of_the_threat_model_names_a_test_that_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "guide" / "security.md").read_text())
    missing = [
        f"{file}::{name}" for file, name in named
        if not (ROOT / file).exists() or (name and f"def {name}(" not in (ROOT / file).read_text())
    ]  # fmt: skip
    assert named
    assert missing == []
