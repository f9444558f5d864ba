"""`phalanx run -- CMD`: run a command as a Job, without YAML, as if the command ran in this terminal.

The output of the pods is written to standard output, and messages of Phalanx to standard error. The exit code is that
of the job's first failed container, or 0 if all containers succeeded.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.attending import Attendance, attend
from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.files.manifest import Document, job, queued
from phalanx.cli.submission.job_options import JobOptions, WishOptions
from phalanx.cli.submission.sending import create_document, not_known, require_class, require_queues, too_large
from phalanx.cli.terminal.conversation import is_at_terminal
from phalanx.cli.terminal.output import note, print_json_line
from phalanx.cli.terminal.stopping import stop_wish
from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.kind import JOBS
from phalanx.errors import PhalanxError

KEPT_S = 3600


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """The options that connect the command with this terminal."""

    tty: Annotated[bool, Parameter(name=("--tty", "-it", "-ti"))] = False
    """Connect the command with this terminal, for a shell, an editor or a debugger. The command gets all keys, also
    Ctrl-C. If the connection ends, the job goes on, and `phalanx attach` connects again."""

    stdin: Annotated[bool, Parameter(alias="-i")] = False
    """Pass standard input to the command."""

    def require(self, options: JobOptions, *, detach: bool) -> None:
        """Raise PhalanxError if another option does not work for an interactive job."""
        if not (self.tty or self.stdin):
            return
        option = "--tty (-it)" if self.tty else "--stdin (-i)"
        if self.tty and not is_at_terminal():
            raise PhalanxError(
                f"{option} needs a terminal, but standard input or output is not a terminal. Leave the option out, or "
                "pass "
                "standard input with --stdin (-i). Nothing was created."
            )
        if options.pods != 1:
            raise PhalanxError(f"{option} and --pods {options.pods}: only a job with one pod can read input.")
        if options.retries:
            raise PhalanxError(
                f"{option} and --retries: a pod that is started again could not read the input, because the first pod "
                "has read it."
            )
        if options.output:
            raise PhalanxError(
                f"{option} and --output: with {option} the output is shown in this terminal. Leave one of the two out."
            )
        if detach:
            raise PhalanxError(f"{option} and --detach exclude each other.")


async def run(
    *command: str,
    options: JobOptions | None = None,
    wishes: WishOptions | None = None,
    queue: Annotated[str, Parameter(alias="-q")] = "default",
    space: Namespace | None = None,
    target: Target | None = None,
    streams: InputOptions | None = None,
    detach: Annotated[bool, Parameter(alias="-d")] = False,
    json: bool = False,
) -> int:
    """Run a command as a Job: wait until it starts, show its output, and exit with its exit code.

    The command runs in the current directory of this machine (`--image host`), or in a container image. It is not
    interpreted by a shell. After Ctrl-C you are asked whether to delete the Job; only `yes` deletes it. If the
    terminal, the ssh session or this command ends, the Job goes on, and `phalanx attach` follows it again. The Job is
    deleted one hour after its end.

    For example:

        phalanx run -- echo hello
        phalanx run --cpu 2 --memory 4Gi --gpu 1 --env EPOCHS=3 -- python train.py
        phalanx run --pods 4 --gpu 8 -- torchrun train.py
        phalanx run --time-limit 30m --after prepare:ok -- python train.py
        phalanx run -it --gpu 1 --time-limit 2h -- bash
        phalanx run --detach --queue research -- sh -c 'sort words | uniq -c > counts'

    Parameters
    ----------
    command
        The command, after two dashes.
    queue
        The queue.
    detach
        Return at once: print the name of the Job, which `phalanx attach` and `phalanx logs` take.
    json
        When the job has ended, print a last line with JSON about it: job, state, exit_code, why.
    """
    namespace = (space or Namespace()).namespace
    options, wishes, streams = options or JobOptions(), wishes or WishOptions(), streams or InputOptions()
    streams.require(options, detach=detach)
    words = wishes.words(time.time())
    request = options.request(command, namespace, queue, KEPT_S)
    request = replace(request, stdin=streams.stdin or streams.tty, tty=streams.tty)
    document = Document(file="the command", obj=job(request))
    manifest = queued(document, queue, words, wishes.priority)
    async with connected(target) as connection:
        warnings = await require_queues(connection, [(queue, "--queue")])
        if wishes.priority:
            await require_class(connection, wishes.priority)
        warnings += await not_known(connection, wishes.after, namespace)
        made = await create_document(connection, document, manifest, namespace)
        for warning in (*warnings, *await too_large(connection, [made])):
            note(f"phalanx: warning: {warning}")
        return _left(made, json) if detach else await follow(connection, made, json=json, interactive=request.stdin)


async def follow(connection: Connection, job: Object, *, json: bool, interactive: bool = False) -> int:
    """Show the reasons why a Job waits, then its output until its end; return its exit code. A stop signal ends only
    this command, not the Job. The Job is deleted only if the user answers *yes* after Ctrl-C at a terminal.
    `interactive`: pass standard input to the Job's pod."""
    with stop_wish() as wish:
        attendance = asyncio.create_task(attend(connection, job, _say, interactive=interactive))
        stopping = asyncio.create_task(wish.wait())
        await asyncio.wait({attendance, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if attendance.done():
            return _conclude(job, attendance.result(), json)
        attendance.cancel()
        await asyncio.wait({attendance})
    number = wish.number or signal.SIGINT
    if number == signal.SIGINT and sys.stdin.isatty() and sys.stderr.isatty() and _is_deletion_confirmed(_name(job)):
        await _delete(connection, job)
    else:
        _say_how_to_return(_name(job))
    return 128 + number


def _left(made: Object, json: bool) -> int:
    if json:
        print_json_line({"job": _name(made), "state": "queued", "exit_code": None, "why": ""})
    else:
        print(_name(made))
    return 0


def _conclude(job: Object, outcome: Attendance, json: bool) -> int:
    name = _name(job)
    if json:
        print_json_line({"job": name, "state": outcome.state, "exit_code": outcome.exit_code, "why": outcome.why})
    elif outcome.exit_code:
        _say(f"job {name} failed: {outcome.why}")
    return outcome.exit_code


def _name(job: Object) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _is_deletion_confirmed(name: str) -> bool:
    """Ask the user once, and return True if the answer is *yes*. The end of the input and a second Ctrl-C count as
    *no*."""
    try:
        print(f"\nphalanx: delete job {name}? [y/N] ", end="", file=sys.stderr, flush=True)
        return input().strip().lower() in {"y", "yes"}
    except (EOFError, KeyboardInterrupt, OSError):
        print(file=sys.stderr)
        return False


def _say_how_to_return(name: str) -> None:
    with suppress(OSError):  # the terminal may be closed
        _say(f"job {name} goes on; `phalanx attach {name}` follows it again, `phalanx cancel {name}` ends it")


async def _delete(connection: Connection, job: Object) -> None:
    meta = job["metadata"]
    body = {"propagationPolicy": "Background", "preconditions": {"uid": meta["uid"]}}
    try:
        await connection.delete(JOBS, meta["name"], meta["namespace"], body)
    except ApiRefusal as error:
        if error.code not in {404, 409}:  # the Job was deleted, or another Job with the same name was created
            raise
    except ApiUnknown as error:
        _say(f"it is unknown whether job {_name(job)} was deleted ({error})")
        _say_how_to_return(_name(job))
        return
    _say(f"job {_name(job)} was deleted")


def _say(text: str) -> None:
    note(f"phalanx: {text}")
