"""A provider that is a program on the scheduler's machine. It gets a call on its standard input, and prints the answer.

The program is started without a shell, in a process group of its own. A program that is late is killed with its
children."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress

from phalanx.providers.counted.calls import MOST_BYTES, text_of
from phalanx.providers.provider import ProviderError

_LAST_BYTES = 4096  # the end of standard error that messages quote


class Program:
    """A program. `command`: its path and arguments; the call and the group follow. `timeout_s`: the time limit of one
    call."""

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = tuple(command), timeout_s
        self.name = f"the program {self._command[0]}"

    async def call(self, call: str, group: str, body: bytes) -> bytes:
        argv = (*self._command, call, group)
        by_hand = f"try it by hand: echo {shlex.quote(body.decode()[:1000])} | {shlex.join(argv)}"
        try:
            code, output, complaint = await run_program(argv, body, self._timeout_s)
        except TimeoutError:
            raise ProviderError(
                f"{self.name} did not end within {self._timeout_s:g} s and was stopped; it must end before the nodes "
                f"have started, and close its output; {by_hand}"
            ) from None
        except OSError as error:
            raise ProviderError(f"{self.name} cannot be started: {error.strerror or error}") from None
        if code:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            said = text_of(complaint.decode(errors="replace")[-500:])
            raise ProviderError(f"{self.name} {how}: {said or 'it printed no error'}; {by_hand}")
        if len(output) > MOST_BYTES:
            raise ProviderError(f"{self.name} printed more than {MOST_BYTES >> 20} MiB; {by_hand}")
        return output


async def run_program(argv: Sequence[str], body: bytes, timeout_s: float) -> tuple[int, bytes, bytes]:
    """Run the program with `body` as its standard input. Return its exit status, at most `MOST_BYTES` + 1 bytes of its
    output, and the end of its standard error. Raises OSError or TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    has_ended = False
    try:
        async with asyncio.timeout(timeout_s):
            with suppress(ConnectionError):  # a program that does not read its input
                process.stdin.write(body)
                await process.stdin.drain()
            process.stdin.close()
            output, complaint = await asyncio.gather(_first(process.stdout), _last(process.stderr))
            code = await process.wait()
            has_ended = True
    finally:
        if not has_ended:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return code, output, complaint


async def _first(stream: asyncio.StreamReader) -> bytes:
    """Read the stream to its end. Return its beginning."""
    found = bytearray()
    while part := await stream.read(1 << 16):
        found += part[: MOST_BYTES + 1 - len(found)]
    return bytes(found)


async def _last(stream: asyncio.StreamReader) -> bytes:
    """Read the stream to its end. Return its end."""
    found = b""
    while part := await stream.read(1 << 16):
        found = (found + part)[-_LAST_BYTES:]
    return found
