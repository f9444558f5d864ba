"""The command `phalanx`: its commands, and the one place where errors of users become exit codes.

Commands are looked up by name and imported when they are called: `phalanx --help` needs none of them.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from phalanx import __version__
from phalanx.cli.commands.overview import ABOUT, COMMANDS, TITLES, import_path, overview
from phalanx.errors import PhalanxError

if TYPE_CHECKING:  # imported late, because `--version` and `--help` do not need it
    from cyclopts import App

# Options of `run` and `submit` without a value: the next word may be the command.
FLAGS = frozenset(
    {
        *("--hold", "--json", "--dry-run", "--detach", "-d", "--follow", "--help", "-h", "--version"),
        *("--tty", "-it", "-ti", "--stdin", "-i"),
    }
)
HIDDEN = {  # commands that other programs call
    "complete": "phalanx.cli.commands.work.complete:complete",
    "control-plane": "phalanx.cli.commands.one_machine.control_plane:control_plane",
}
FULL = (errno.ENOSPC, errno.EDQUOT)


def build(asked: str = "") -> App:
    """Return the application with a line of help for each command. The command `asked` is imported, and has its own
    help."""
    from cyclopts import App, Group, Parameter

    groups = {folder: Group(title, sort_key=number) for number, (folder, title) in enumerate(TITLES.items())}
    app = App(
        name="phalanx",
        version=__version__,
        help=ABOUT,
        help_format="markdown",
        default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
    )
    for name, (folder, line) in COMMANDS.items():
        app.command(import_path(name), name=name, group=groups[folder], help=None if name == asked else line)
    for name, path in HIDDEN.items():
        app.command(path, name=name, show=False)
    return app


def main() -> None:
    """Run the command line. The exit code is 0 for success, 1 for an error that the user can mend, 2 for a wrong
    command line, 130 after Ctrl-C, or else the exit code of a job."""
    try:
        words = sys.argv[1:] = with_dashes(with_standard_input(sys.argv[1:]))
        answer = _answer(words)
        sys.stdout.flush()
    except PhalanxError as error:
        _fail(error)
    except BaseExceptionGroup as group:  # errors of parallel tasks; a defect keeps its traceback
        if group.split(PhalanxError)[1] is not None:
            raise
        _fail(_first(group))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output (head, less) has closed the pipe
        _write_no_more()
        sys.exit(0)
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        _write_no_more()
        _fail(PhalanxError(f"what was written is not whole: {error.strerror}; make room there and ask again"))
    sys.exit(answer if isinstance(answer, int) else 0)


def complete_for_kubectl() -> None:
    """Print the completions of the last word of `kubectl phalanx ...`, one on each line."""
    sys.argv[1:] = ["complete", "--", *sys.argv[1:]]
    main()


def _answer(words: list[str]) -> object:
    """Return what the command returns. Raises what the command raises, and SystemExit for a wrong command line."""
    if words in ([], ["--help"], ["-h"]):
        sys.stdout.write(overview(bold=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
        return 0
    if words == ["--version"]:
        print(__version__)
        return 0
    if words[0] not in {*COMMANDS, *HIDDEN, "--help", "-h", "--version"}:
        print(f"phalanx: error: {_no_command(words[0])}", file=sys.stderr)
        sys.exit(2)
    from cyclopts import CycloptsError

    try:
        return build(words[0])(words, exit_on_error=False, result_action="return_value")
    except CycloptsError:  # cyclopts has printed the error
        sys.exit(2)


def _no_command(word: str) -> str:
    """Return the error for an unknown command. The parser's own error would import every command."""
    from difflib import get_close_matches

    near = " or ".join(get_close_matches(word, (*COMMANDS, "--help", "--version"), n=2))
    what = "option" if word.startswith("-") else "command"
    return f"there is no {what} {word!r}{f'; did you mean {near}?' if near else '.'} `phalanx --help` lists all."


def _write_no_more() -> None:
    """Discard further output. Drop the unwritten output, because writing it would fail again at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_standard_input(words: list[str]) -> list[str]:
    """Replace a lone dash by the path of standard input, because the parser takes a dash for an option."""
    mine = words.index("--") if "--" in words else len(words)
    return ["/dev/stdin" if word == "-" else word for word in words[:mine]] + words[mine:]


def with_dashes(words: list[str]) -> list[str]:
    """Return a command line of `run` or `submit` with the two dashes before its command, where they were left out.

    The command begins at the first word that is neither an option nor an option's value. `submit` also takes a file
    there."""
    if words[:1] not in (["run"], ["submit"]) or "--" in words:
        return words
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 1 if "=" in words[at] or words[at] in FLAGS else 2
    if at >= len(words):
        return words
    if words[0] == "submit" and not _is_program(words[at]):
        return _with_script(words, at)
    return [*words[:at], "--", *words[at:]]


def _with_script(words: list[str], at: int) -> list[str]:
    """Return a command line of `submit` with a script as its command, and the options that stand in the script.

    Raises PhalanxError."""
    from phalanx.cli.submission.script import is_script, script_line

    return ["submit", *script_line(words[1:at], words[at], words[at + 1 :], FLAGS)] if is_script(words[at]) else words


def _is_program(word: str) -> bool:
    """Return True for a word that names a program on the PATH, and no file or folder."""
    from shutil import which

    return not os.path.exists(word) and which(word) is not None


def _fail(error: BaseException) -> None:
    print(f"phalanx: error: {error}", file=sys.stderr)
    sys.exit(1)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


if __name__ == "__main__":
    main()
