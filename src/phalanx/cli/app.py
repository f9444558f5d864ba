"""The program `phalanx`: find the command that the user names, run it, and convert errors to exit codes.

The module of a command is imported only when the command is called. So `phalanx --help` imports no command.
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

# Options of `run` and `submit` that take no value. So the word after such an option may be the command of the job.
FLAGS = frozenset(
    {
        *("--hold", "--json", "--dry-run", "--detach", "-d", "--follow", "--help", "-h", "--version"),
        *("--tty", "-it", "-ti", "--stdin", "-i"),
    }
)
HIDDEN = {  # commands that only other programs call; the help does not list them
    "complete": "phalanx.cli.commands.work.complete:complete",
    "control-plane": "phalanx.cli.commands.one_machine.control_plane:control_plane",
}
FULL = (errno.ENOSPC, errno.EDQUOT)


def build(command: str = "") -> App:
    """Return the application with a line of help for each command. Only the module of `command` is imported, so that
    its full help and its options are known."""
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
        app.command(import_path(name), name=name, group=groups[folder], help=None if name == command else line)
    for name, path in HIDDEN.items():
        app.command(path, name=name, show=False)
    return app


def main() -> None:
    """Run the command line, and exit with its code: 0 for success, 1 for an error that the user can correct, 2 for an
    invalid command line, 130 after Ctrl-C. Commands that wait for a job exit with the job's exit code."""
    try:
        words = sys.argv[1:] = with_dashes(with_standard_input(sys.argv[1:]))
        answer = _answer(words)
        sys.stdout.flush()
    except PhalanxError as error:
        _fail(error)
    # errors of parallel tasks; an error that is not a PhalanxError is a bug, and keeps its traceback
    except BaseExceptionGroup as group:
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
        _fail(PhalanxError(f"the output is incomplete: {error.strerror}; free some disk space and repeat the command"))
    sys.exit(answer if isinstance(answer, int) else 0)


def complete_for_kubectl() -> None:
    """Print the completions of the last word of the command line `kubectl phalanx ...`, one on each line."""
    sys.argv[1:] = ["complete", "--", *sys.argv[1:]]
    main()


def _answer(words: list[str]) -> object:
    """Call the command and return its result. Errors of the command are passed on; an invalid command line raises
    SystemExit."""
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
    """Return the error message for an unknown command or option. The parser's own message is not used, because it would
    import every command."""
    from difflib import get_close_matches

    near = " or ".join(get_close_matches(word, (*COMMANDS, "--help", "--version"), n=2))
    what = "option" if word.startswith("-") else "command"
    return f"there is no {what} {word!r}{f'; did you mean {near}?' if near else '.'} `phalanx --help` lists them."


def _write_no_more() -> None:
    """Redirect standard output to /dev/null. Otherwise Python would flush the buffered output at the exit, and fail
    again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_standard_input(words: list[str]) -> list[str]:
    """Replace each word `-` before `--` by /dev/stdin, because the parser interprets a dash as an option."""
    mine = words.index("--") if "--" in words else len(words)
    return ["/dev/stdin" if word == "-" else word for word in words[:mine]] + words[mine:]


def with_dashes(words: list[str]) -> list[str]:
    """Insert the `--` before the command of the job if the user left it out in `phalanx run` or `phalanx submit`.

    The command begins at the first word that is neither an option nor an option's value. In `submit` this word may also
    name a file. Then the command line is returned unchanged, unless the file is a script (`_with_script`)."""
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
    """Return a command line of `submit` whose command is the script, with the options that the script's `#PHALANX`
    lines contain. If the file is not a script, return `words` unchanged. Raises PhalanxError."""
    from phalanx.cli.submission.script import is_script, script_line

    return ["submit", *script_line(words[1:at], words[at], words[at + 1 :], FLAGS)] if is_script(words[at]) else words


def _is_program(word: str) -> bool:
    """Return True if `word` names a program on the PATH and no file or folder has this name."""
    from shutil import which

    return not os.path.exists(word) and which(word) is not None


def _fail(error: BaseException) -> None:
    print(f"phalanx: error: {error}", file=sys.stderr)
    sys.exit(1)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


if __name__ == "__main__":
    main()
