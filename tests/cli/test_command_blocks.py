"""Each command of README.md and docs/guide is one that `phalanx` has, and blocks that can run do so.

A command block is indented, or fenced as sh, bash or console, and has a `phalanx` command in it. All blocks of a page
run in the order of the page, on one cluster that a test starts. A block that cannot run says why in the Markdown
source, in a comment before it:

    <!-- not run: needs root -->

Commands of these blocks, and the examples of each help, are still parsed by the real command line."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from phalanx.cli.app import build, with_dashes, with_standard_input
from phalanx.cli.commands.overview import COMMANDS, overview
from phalanx.errors import PhalanxError
from tests.cli.test_documents import help_of
from tests.cli.upstart import started

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
REASON = re.compile(r"<!-- not run: (.+) -->")
FENCE = re.compile(r"\s*```(\w*)")
SHELLS = {"sh", "bash", "console"}
JOINERS = {"&&", "||", "|", ";", "&"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of commands. `line`: where it begins in the page; `reason`: why it is not run, or ""."""

    page: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page that have a `phalanx` command."""
    lines = page.read_text().splitlines()
    found: list[str] = []
    begin, fence, reason = 0, None, ""
    for number, line in enumerate([*lines, ""], 1):
        mark = FENCE.fullmatch(line.rstrip())
        if fence is None and mark is None and line.startswith("    "):
            begin = begin or number
            found.append(line.removeprefix("    "))
            continue
        if fence is not None and mark is None:
            found.append(line)
            continue
        if found and (fence is None or fence in SHELLS):
            block = Block(page=page.name, line=begin, text=_typed(found, fence), reason=reason)
            if any(commands(block.text)):
                yield block
        if found or (line.strip() and mark is None):  # a reason is for the next block, after blank lines
            reason = ""
        found, begin = [], number + 1 if mark and fence is None else 0
        fence = mark[1] if mark is not None and fence is None else None
        if (told := REASON.fullmatch(line.strip())) is not None:
            reason = told[1]


def _typed(lines: list[str], fence: str | None) -> str:
    """Return the commands that a user types. In a console block, each command follows a prompt."""
    if fence != "console":
        return "\n".join(lines)
    typed = [at for at, line in enumerate(lines) if line.startswith("$ ") or (at and lines[at - 1].endswith("\\"))]
    return "\n".join(lines[at].removeprefix("$ ") for at in typed)


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each `phalanx` command of a shell script, without redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        if not re.search(r"(^|[\s/])phalanx(\s|$)", line):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in JOINERS:
                words.append(word)
                continue
            if found := _phalanx(words):
                yield found
            words = []


def _phalanx(words: list[str]) -> list[str]:
    """Return the words after `phalanx`; nothing for another command."""
    while words and (words[0] == "sudo" or re.match(r"[A-Z_]+=", words[0])):
        words = words[1:]
    redirected = {at for at, word in enumerate(words) if word in {">", "<", ">>"}}
    words = [word for at, word in enumerate(words) if not {at, at - 1} & redirected]
    return words[1:] if words and Path(words[0]).name == "phalanx" else []


BLOCKS = [block for page in PAGES for block in blocks(page)]


def parse(words: list[str]) -> None:
    """Read a command line as `phalanx` does. Raises what it raises for a wrong one."""
    ready = with_dashes(with_standard_input(words))
    build(ready[0]).parse_args(ready, exit_on_error=False, print_error=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with the script that an example submits."""
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_every_documented_command_line_is_one_that_phalanx_reads() -> None:
    found = [(str(block), words) for block in BLOCKS for words in commands(block.text)]
    assert len(found) > 50
    wrong = [f"{where}: phalanx {shlex.join(words)}: {error}" for where, words in found if (error := _error(words))]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_examples_of_each_help_are_read(command: str) -> None:
    text = overview() if not command else help_of(command, width=400)
    examples = [line for line in text.splitlines() if re.match(r" +([\w ']* \| )?(sudo )?phalanx (?!COMMAND)", line)]
    found = [words for line in examples for words in commands(line)]
    assert found, f"phalanx {command} --help shows no example"
    assert [f"{shlex.join(words)}: {error}" for words in found if (error := _error(words))] == []


def _error(words: list[str]) -> str:
    try:
        parse(words)
    except Exception as error:  # the user would see this error
        if isinstance(error, PhalanxError) and "on this machine" in str(error):  # the option was read
            return ""
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize(
    "line",
    ["phalanx nonesuch", "phalanx jobs --none", "phalanx cancel --state asleep", "A=1 phalanx run --pods x -- ls"],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    [words] = commands(line)
    assert _error(words)


RUN = [block for block in BLOCKS if not block.reason]


@pytest.mark.long
def test_blocks_run_as_they_are_documented(tmp_path: Path) -> None:
    """Run the blocks of all pages on one cluster. The cluster is in the home directory, where `phalanx up` keeps it by
    default."""
    assert {block.page for block in RUN} >= {"README.md", "command-line.md"}
    with started(tmp_path / ".phalanx", "--local-cpu", "4", "--stop-pods") as up:
        program = tmp_path / ".venv" / "bin" / "phalanx"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m phalanx.cli.app "$@"\n')
        program.chmod(0o755)
        for name in ("examples", "benchmarks"):
            (tmp_path / name).symlink_to(ROOT / name)
        environment = {
            "HOME": str(tmp_path),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(up.data / "kubeconfig"),
        }
        for block in RUN:
            script = f"set -e\n{block.text}"
            done = subprocess.run(
                ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
