"""`phalanx port-forward JOB PORT`: forward a port of this machine's loopback address to a pod of a job."""

from __future__ import annotations

import asyncio

from phalanx.cli.cluster.jobs.streaming import forward
from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.commands.inside.place import running_pod
from phalanx.cli.terminal.output import note
from phalanx.cli.terminal.stopping import stop_wish
from phalanx.client.connection import ApiError, Connection, Object
from phalanx.errors import PhalanxError

_HOST = "127.0.0.1"
_MOST_PORT = 65535


async def port_forward(
    job: str,
    port: str,
    /,
    *ports: str,
    space: Namespace | None = None,
    target: Target | None = None,
) -> None:
    """Forward a port of 127.0.0.1 to a port of a pod of a job, until Ctrl-C: for a notebook, TensorBoard or a debugger.

    For example:

        phalanx port-forward notebook 8888
        phalanx port-forward train/0 6006:16006 5678

    Parameters
    ----------
    job
        The job: NAME, NAMESPACE/NAME or KIND/NAME; JOB/INDEX or JOB/ROLE for one of its pods.
    port
        The port of the pod, or LOCAL:REMOTE for another local port; 0:REMOTE chooses a free local port.
    ports
        More ports.
    """
    pairs = [_pair(text) for text in (port, *ports)]
    namespace = (space or Namespace()).namespace
    async with connected(target) as connection, running_pod(connection, job, namespace, target) as (there, pod):
        servers = [await _listen(there, pod, local, remote) for local, remote in pairs]
        try:
            with stop_wish() as wish:
                await wish.wait()
        finally:
            for server in servers:
                server.close()


def _pair(text: str) -> tuple[int, int]:
    """Return the local and the remote port. Raises PhalanxError if the text is invalid."""
    local, colon, remote = text.partition(":")
    numbers = (local, remote if colon else local)
    if not all(one.isascii() and one.isdigit() and int(one) <= _MOST_PORT for one in numbers) or not int(numbers[1]):
        raise PhalanxError(
            f"{text!r} is not a port: write for example 8888, or 8080:80 for local port 8080 and port 80 of the pod."
        )
    return int(numbers[0]), int(numbers[1])


async def _listen(connection: Connection, pod: Object, local: int, remote: int) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wrong = await forward(connection, pod, remote, reader, writer)
        except ApiError as error:
            wrong = str(error)
            writer.close()
        if wrong:
            note(f"phalanx: {wrong}")

    try:
        server = await asyncio.start_server(serve, _HOST, local)
    except OSError as error:
        raise PhalanxError(
            f"cannot listen on {_HOST}:{local}: {error.strerror}. Name another port: LOCAL:{remote}."
        ) from error
    at = server.sockets[0].getsockname()[1]
    print(f"{_HOST}:{at} -> {pod['metadata']['name']}:{remote}", flush=True)
    return server
