"""The command `phalanx`: its commands, and the one place where errors of users become exit codes.

Commands are looked up by name and imported when they are called: `phalanx --help` needs none of them.
"""

from __future__ import annotations

import os
import sys

from cyclopts import App, Group, Parameter

from phalanx import __version__
from phalanx.errors import PhalanxError

CLUSTER = Group("A cluster on this machine", sort_key=1)
WORK = Group("Work", sort_key=2)
SIGHT = Group("What runs, what waits, and why", sort_key=3)

app = App(
    name="phalanx",
    version=__version__,
    help="""A batch scheduler: a job starts whole or not at all.

Examples:

    phalanx up                       # a Kubernetes on this machine, until Ctrl-C
    phalanx run -- echo hello        # a Job without writing YAML
    phalanx jobs                     # what runs, what waits, and why
    phalanx demo                     # six applications, pod by pod and as gangs
""",
    help_format="markdown",
    default_parameter=Parameter(negative=()),
)

_COMMANDS = {
    "up": ("phalanx.cli.up:up", CLUSTER),
    "demo": ("phalanx.cli.demo:demo", CLUSTER),
    "scheduler": ("phalanx.cli.scheduler:scheduler", CLUSTER),
    "run": ("phalanx.cli.run:run", WORK),
    "submit": ("phalanx.cli.submit:submit", WORK),
    "jobs": ("phalanx.cli.jobs:jobs", SIGHT),
    "explain": ("phalanx.cli.explain:explain", SIGHT),
    "nodes": ("phalanx.cli.nodes:nodes", SIGHT),
    "queues": ("phalanx.cli.queues:queues", SIGHT),
}
for _name, (_place, _group) in _COMMANDS.items():
    app.command(_place, name=_name, group=_group)
app.command("phalanx.cli.control_plane:control_plane", name="control-plane", show=False)


def main() -> None:
    """Exit codes: 0 done, 1 an error that the user can mend, 2 a wrong command line, 130 Ctrl-C, else a job's own."""
    try:
        answer = app(exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except PhalanxError as error:
        print(f"phalanx: error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    sys.exit(answer if isinstance(answer, int) else 0)


if __name__ == "__main__":
    main()
