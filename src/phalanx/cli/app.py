"""The command `phalanx`: its commands, and the one place where errors of users become exit codes.

Commands are looked up by name and imported when they are called: `phalanx --help` needs none of them.
"""

from __future__ import annotations

import errno
import os
import sys
from keyword import iskeyword

from cyclopts import App, CycloptsError, Group, Parameter

from phalanx import __version__
from phalanx.errors import PhalanxError

# folder of `commands` -> how the overview calls its commands
GROUPS = {
    "one_machine": Group("A cluster on this machine", sort_key=1),
    "in_cluster": Group("In a cluster", sort_key=2),
    "work": Group("Work", sort_key=3),
    "attend": Group("A job", sort_key=4),
    "inside": Group("Inside a job", sort_key=5),
    "status": Group("What runs, what waits, and why", sort_key=6),
    "study": Group("What would be", sort_key=7),
}
# Options of `run` and `submit` without a value: the next word may be the command.
FLAGS = frozenset({"--hold", "--json", "--dry-run", "--detach", "-d", "--help", "-h", "--version"})
FULL = (errno.ENOSPC, errno.EDQUOT)

_OVERVIEW = """For example:

    phalanx up                       # a Kubernetes on this machine, until Ctrl-C
    phalanx run -- echo hello        # a Job without writing YAML
    phalanx jobs                     # what runs, what waits, and why
    phalanx demo                     # six applications, pod by pod and as gangs

`phalanx COMMAND --help` says more.
"""

# name -> (folder of `commands`, what it does in a line). Each is the function of that name in the module of that name.
COMMANDS = {
    "up": ("one_machine", "Start a Kubernetes on this machine. Ctrl-C stops it."),
    "login": ("one_machine", "Become a user of the cluster that this machine shares."),
    "install": ("one_machine", "Make a shared cluster of this machine a service of systemd."),
    "image": ("one_machine", "Images that containers of this machine run."),
    "demo": ("one_machine", "Six applications at once: first pod by pod, then as gangs."),
    "backup": ("one_machine", "Write a cluster of this machine into a file, while it runs."),
    "restore": ("one_machine", "Put a cluster of this machine back from such a file."),
    "scheduler": ("in_cluster", "Schedule the jobs of any Kubernetes cluster."),
    "webhook": ("in_cluster", "Make Jobs ours, for API servers before Kubernetes 1.36."),
    "visibility": ("in_cluster", "Answer Kueue's visibility API in a cluster."),
    "deploy": ("in_cluster", "The manifests that install Phalanx in a cluster."),
    "slurm": ("work", "Slurm's commands: install sbatch, squeue and others."),
    "run": ("work", "Run a command as a Job, show its output, end with its exit code."),
    "submit": ("work", "Queue Jobs from files, or one made from a command."),
    "logs": ("attend", "The output of a job, also after its pods are gone."),
    "wait": ("attend", "Wait until jobs are over; the exit code is theirs."),
    "cancel": ("attend", "End jobs, or take them out of the queue."),
    "hold": ("attend", "Keep jobs queued."),
    "release": ("attend", "Let jobs start that are held."),
    "rerun": ("attend", "Submit a job once more that is over."),
    "attach": ("attend", "Follow a job again, end with its exit code."),
    "shell": ("inside", "A shell in a pod of a job, or a command."),
    "cp": ("inside", "Copy files from and to a pod of a job."),
    "port-forward": ("inside", "Reach a port of a pod of a job on this machine."),
    "examples": ("work", "The examples that come with Phalanx."),
    "jobs": ("status", "What runs, what waits, since when, and why."),
    "explain": ("status", "Why a job waits, in full."),
    "history": ("status", "What ran: jobs that are over too, and what each user took."),
    "ledger": ("status", "The ledger as files: exported, archived, purged."),
    "nodes": ("status", "What each node has, and who uses it."),
    "queues": ("status", "The queues, and what is in them."),
    "replay": ("study", "Go through a recording of a scheduler, decision by decision."),
    "whatif": ("study", "See what a change would do, before it is made."),
    "snapshot": ("study", "Write down what a cluster is now."),
    "migrate": ("study", "See what the queues of another scheduler become here."),
    "import": ("study", "Take over the site of another scheduler: Slurm's."),
    "simulate": ("study", "Play traces in virtual time, and compare policies."),
}


def build(asked: str = "") -> App:
    """The application. The overview says a line about each command; the command that is `asked` speaks for itself."""
    app = App(
        name="phalanx",
        version=__version__,
        help="A batch scheduler: a job starts whole or not at all.",
        help_epilogue=_OVERVIEW if asked.startswith("-") or not asked else None,
        help_format="markdown",
        default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
    )
    app["--help"].group = app["--version"].group = Group("Options", sort_key=9)
    for name, (folder, line) in COMMANDS.items():
        room = f"{name}_" if iskeyword(name) else name.replace("-", "_")
        found = f"phalanx.cli.commands.{folder}.{room}:{room}"
        app.command(found, name=name, group=GROUPS[folder], help=None if name == asked else line)
    app.command("phalanx.cli.commands.one_machine.control_plane:control_plane", name="control-plane", show=False)
    return app


def main() -> None:
    """Exit codes: 0 done, 1 an error that the user can mend, 2 a wrong command line, 130 Ctrl-C, else a job's own."""
    try:
        words = sys.argv[1:] = with_dashes(_with_standard_input(sys.argv[1:]))
        answer = build(*words[:1])(words, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except PhalanxError as error:
        _fail(error)
    except BaseExceptionGroup as group:  # of tasks that ran side by side; a defect among them is shown as one
        if group.split(PhalanxError)[1] is not None:
            raise
        _fail(_first(group))
    except CycloptsError:  # it has said what is wrong
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        _write_no_more()
        sys.exit(0)
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        _write_no_more()
        _fail(PhalanxError(f"what was written is not whole: {error.strerror}; make room there and ask again"))
    sys.exit(answer if isinstance(answer, int) else 0)


def _write_no_more() -> None:
    """Discard further output. What is left to be written would fail once more at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_standard_input(words: list[str]) -> list[str]:
    """A dash by itself is the file of standard input; who reads command lines takes it for an option."""
    mine = words.index("--") if "--" in words else len(words)
    return ["/dev/stdin" if word == "-" else word for word in words[:mine]] + words[mine:]


def with_dashes(words: list[str]) -> list[str]:
    """Return a command line of `run` or `submit` with the two dashes before its command, where they were left out.

    The first word that is no option, and no value of one, begins the command. For `submit` it may also be a file."""
    if words[:1] not in (["run"], ["submit"]) or "--" in words:
        return words
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 1 if "=" in words[at] or words[at] in FLAGS else 2
    if at >= len(words) or (words[0] == "submit" and not _is_program(words[at])):
        return words
    return [*words[:at], "--", *words[at:]]


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
