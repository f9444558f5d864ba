"""`phalanx shell JOB`: run a shell or a command in a pod of a running job."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.streaming import Exec
from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.commands.inside.place import container_of, running_pod
from phalanx.cli.terminal.conversation import converse

_SHELL = ("sh", "-c", 'exec "$(command -v bash || echo sh)"')


async def shell(
    job: str,
    /,
    *command: str,
    container: Annotated[str, Parameter(alias="-c")] = "",
    space: Namespace | None = None,
    target: Target | None = None,
) -> int:
    """Open a shell in a pod of a running job, or run a command there. The exit code is that of the shell or command.

    At a terminal the shell is interactive. Otherwise standard input is passed to the shell or command.

    For example:

        phalanx shell train
        phalanx shell train/3
        phalanx shell train -- nvidia-smi
        echo 'ls /tmp' | phalanx shell train -- sh

    Parameters
    ----------
    job
        The job: NAME, NAMESPACE/NAME or KIND/NAME; JOB/INDEX or JOB/ROLE for one of its pods. [default: its first pod]
    command
        The command, after two dashes. [default: bash if the container has it, else sh]
    container
        The container. [default: the container that kubectl chooses: the annotated one, else the first]
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not command
    namespace, words = (space or Namespace()).namespace, command or _SHELL
    async with connected(target) as connection, running_pod(connection, job, namespace, target) as (there, pod):
        name = container_of(pod, container)
        async with Exec(there, pod, name, words, tty=terminal, stdin=True) as session:
            return await converse(session, at_terminal=terminal)
