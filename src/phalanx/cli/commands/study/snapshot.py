"""`phalanx snapshot`: write the present state of a live cluster into a file, as a recording with one step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.live_state.look import look
from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.files.recording import append, lines, open_private, step_of
from phalanx.cli.terminal.output import counted, note
from phalanx.errors import PhalanxError


async def snapshot(
    file: Annotated[Path, Parameter(name="FILE")], /, *, target: Target | None = None, replace: bool = False
) -> None:
    """Write the present state of a cluster into a file: its nodes, queues and jobs, as the scheduler sees them.

    `phalanx whatif --snapshot FILE` makes forecasts from the file, on this machine or another one. `phalanx replay
    FILE` shows what the scheduler would decide now. The file contains names, labels and users, so only you can read it.

    For example:

        phalanx snapshot now.jsonl
        phalanx whatif --snapshot now.jsonl -f train.yaml

    Parameters
    ----------
    replace
        Replace FILE if it is a snapshot or recording.
    """
    if not file.parent.is_dir():
        raise PhalanxError(f"{file} cannot be written: there is no folder {file.parent}. Nothing was written.")
    if file.exists():
        if not replace:
            raise PhalanxError(f"{file} exists already. Nothing was written. Name another file, or add --replace.")
        # raises PhalanxError if the file is not a recording, so that only recordings are overwritten
        next(lines(file), None)
    async with connected(target) as connection:
        sight = await look(connection)
    write(file, step_of(sight.now_s, sight.cluster.policy, sight.events, None, begins=True))
    jobs, nodes = counted(len(sight.cluster.jobs), "job"), counted(len(sight.nodes), "node")
    note(f"{file}: {jobs} and {nodes}, of {connection.server}")


def write(file: Path, step: Mapping[str, object]) -> None:
    """Write a recording that has only this step. After an error, the file does not exist or has its old content."""
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
