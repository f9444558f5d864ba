"""`phalanx snapshot`: a live cluster, in a file: a recording of one step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from phalanx.cli.cluster.live_state import look
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.files.recording import append, lines, open_private, step_of
from phalanx.cli.terminal.output import counted, note
from phalanx.errors import PhalanxError


async def snapshot(
    file: Annotated[Path, Parameter(name="FILE")], /, *, target: Target | None = None, replace: bool = False
) -> None:
    """Write down what a cluster is now: its nodes, queues and jobs, as the scheduler sees them.

    `phalanx whatif --snapshot FILE` asks questions of it, here or on another machine; `phalanx replay FILE` shows what
    would be decided. It has names, labels and users in it, so that only you may read the file.

    For example:

        phalanx snapshot now.jsonl
        phalanx whatif --snapshot now.jsonl -f train.yaml

    Parameters
    ----------
    replace
        Write over a snapshot or recording that is in the file.
    """
    if not file.parent.is_dir():
        raise PhalanxError(f"{file} cannot be written: there is no folder {file.parent}. Nothing was written.")
    if file.exists():
        if not replace:
            raise PhalanxError(f"{file} exists already. Nothing was written. Name another file, or say --replace.")
        next(lines(file), None)  # refuse to overwrite a file that is no recording
    async with connected(target) as connection:
        sight = await look(connection)
    write(file, step_of(sight.now_s, sight.cluster.policy, sight.events, None, begins=True))
    jobs, nodes = counted(len(sight.cluster.jobs), "job"), counted(len(sight.nodes), "node")
    note(f"{file}: {jobs} and {nodes}, of {connection.server}")


def write(file: Path, step: Mapping[str, Any]) -> None:
    """Write a recording with this one step. The file is complete or is not written."""
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    descriptor = open_private(part)
    try:
        append(descriptor, step)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise PhalanxError(f"{file} cannot be written: {error.strerror or error}. Nothing was kept.") from error
    finally:
        os.close(descriptor)
