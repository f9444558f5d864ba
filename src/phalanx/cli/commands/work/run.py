"""`phalanx run -- CMD`: a Job without writing YAML, as if it were run here.

Output of the pods goes to standard output; everything that we say goes to standard error. The exit code is the job's:
that of its first container that failed, 0 if all succeeded.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.job_watch import Attendance, attend
from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.files.manifest import Document, job, queued
from phalanx.cli.submission.job_options import JobOptions
from phalanx.cli.submission.scheduling_options import WishOptions
from phalanx.cli.submission.sending import create_document, not_known, require_class, require_queues, too_large
from phalanx.cli.terminal.output import note, print_json_line
from phalanx.cli.terminal.stopping import stop_wish
from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.kind import JOBS

KEPT_S = 3600
INTERRUPTED = 130


async def run(
    *command: str,
    options: JobOptions | None = None,
    wishes: WishOptions | None = None,
    queue: Annotated[str, Parameter(alias="-q")] = "default",
    space: Namespace | None = None,
    target: Target | None = None,
    json: bool = False,
) -> int:
    """Run a command as a Job: wait until it starts, show its output, end with its exit code.

    The command runs in the current directory of this machine (`--image host`), or in a container image. No shell is in
    between. Ctrl-C asks what to do: delete the Job, or leave it running. The Job is deleted an hour after its end.

    For example:

        phalanx run -- echo hello
        phalanx run --pods 4 --cpu 2 --memory 4Gi -- python train.py --epochs 3
        phalanx run --gpu 1 --env CUDA_LAUNCH_BLOCKING=1 -- nvidia-smi
        phalanx run --time-limit 30m --after prepare:ok -- python train.py
        phalanx run --queue research -- sh -c 'sort words | uniq -c > counts'

    Parameters
    ----------
    command
        The command, after two dashes.
    queue
        The queue.
    json
        When it is over, print a line of JSON about it as the last one: job, state, exit_code, why.
    """
    namespace = (space or Namespace()).namespace
    wishes = wishes or WishOptions()
    words = wishes.words(time.time())
    document = Document(
        file="the command", obj=job((options or JobOptions()).request(command, namespace, queue, KEPT_S))
    )
    manifest = queued(document, queue, words, wishes.priority)
    async with connected(target) as connection:
        warnings = await require_queues(connection, [(queue, "--queue")])
        if wishes.priority:
            await require_class(connection, wishes.priority)
        warnings += await not_known(connection, wishes.after, namespace)
        made = await create_document(connection, document, manifest, namespace)
        for warning in (*warnings, *await too_large(connection, [made])):
            note(f"phalanx: warning: {warning}")
        with stop_wish() as wish:
            attendance = asyncio.create_task(attend(connection, made, _say))
            stopping = asyncio.create_task(wish.wait())
            await asyncio.wait({attendance, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not attendance.done():
                attendance.cancel()
                await asyncio.wait({attendance})
                return await _interrupted(connection, made)
        return _conclude(made, attendance.result(), json)


def _conclude(made: Object, outcome: Attendance, json: bool) -> int:
    name = f"{made['metadata']['namespace']}/{made['metadata']['name']}"
    if json:
        print_json_line({"job": name, "state": outcome.state, "exit_code": outcome.exit_code, "why": outcome.why})
    elif outcome.exit_code:
        _say(f"job {name} failed: {outcome.why}")
    return outcome.exit_code


async def _interrupted(connection: Connection, made: Object) -> int:
    """A user at a terminal is asked; else the Job goes, for nobody waits for it any more."""
    meta = made["metadata"]
    name = f"{meta['namespace']}/{meta['name']}"
    if sys.stdin.isatty() and sys.stderr.isatty() and not await asyncio.to_thread(_wants_deletion, name):
        _say(f"job {name} goes on; `phalanx explain {name}` says how it is, `kubectl delete job` ends it")
        return INTERRUPTED
    try:
        await connection.delete(JOBS, meta["name"], meta["namespace"], {"propagationPolicy": "Background"})
    except ApiRefusal as error:
        if error.code != 404:
            raise
    except ApiUnknown as error:
        _say(f"whether job {name} was deleted is not known ({error}); `kubectl delete job` ends it")
        return INTERRUPTED
    _say(f"job {name} was deleted")
    return INTERRUPTED


def _wants_deletion(name: str) -> bool:
    try:
        print(f"\nphalanx: delete job {name}? [Y/n] ", end="", file=sys.stderr, flush=True)
        return input().strip().lower() not in {"n", "no"}
    except (EOFError, KeyboardInterrupt):
        return True


def _say(text: str) -> None:
    note(f"phalanx: {text}")
