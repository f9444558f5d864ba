"""The driver of an application of the demo: `python -m phalanx.demo.driver`. It creates its executors through the API,
sends parts of a text to them, and adds up the word counts.

The last line of its log is the result. If an executor is lost, another executor gets its part of the text; if all
executors are lost, the driver fails. The driver reads APPLICATION, API_SERVER, API_TOKEN, API_CA and its own POD_NAME,
POD_NAMESPACE and POD_IP from the environment.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import ssl
import sys
from collections import Counter
from collections.abc import Iterable

from phalanx.client.connection import Connection
from phalanx.client.kind import PODS
from phalanx.demo.executor import LINE_LIMIT_BYTES, ConnectionLost, Counted, Goodbye, Hello, Work, receive, send
from phalanx.demo.trial import EXECUTORS, executor
from phalanx.demo.words import parts, summarize
from phalanx.errors import PhalanxError


class WordCount:
    """The parts of the text that are not counted yet, and the sum of the counts so far. `token`: the secret that
    executors must send. `executors`: the number of executors."""

    def __init__(self, texts: Iterable[str], token: str, executors: int) -> None:
        self.counts: Counter[str] = Counter()
        self._waiting = list(enumerate(texts))
        self._open = len(self._waiting)
        self._token, self._executors_left = token, executors
        self._change = asyncio.Condition()

    async def finished(self) -> None:
        """Wait until all parts are counted. Raises PhalanxError if all executors are lost before that."""
        async with self._change:
            await self._change.wait_for(lambda: not self._open or not self._executors_left)
        if self._open:
            raise PhalanxError(
                f"{self._open} parts are not counted, and all executors are lost; see the logs of the executors"
            )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one executor until all parts are counted or its connection ends. A connection without the token is
        closed."""
        try:
            match await receive(reader):
                case Hello(token, name) if hmac.compare_digest(token, self._token):
                    print(f"{name} is here", flush=True)
                    await self._feed(reader, writer)
                case _:
                    pass
        except ConnectionLost:
            pass
        finally:
            writer.close()

    async def _feed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        work: tuple[int, str] | None = None
        try:
            while work := await self._next():
                await send(writer, Work(*work))
                match await receive(reader):
                    case Counted(part, counts) if part == work[0]:
                        await self._take(counts)
                        work = None
                    case _:
                        raise ConnectionLost("the executor did not send the counts of the requested part")
            await send(writer, Goodbye())
        except ConnectionLost:
            await self._lost(work)

    async def _next(self) -> tuple[int, str] | None:
        """Return a part to count; None if all parts are counted. While other executors count the last parts, this call
        waits, because the part of a lost executor must be counted again."""
        async with self._change:
            await self._change.wait_for(lambda: self._waiting or not self._open)
            return self._waiting.pop() if self._waiting else None

    async def _take(self, counts: dict[str, int]) -> None:
        async with self._change:
            self.counts.update(counts)
            self._open -= 1
            self._change.notify_all()

    async def _lost(self, work: tuple[int, str] | None) -> None:
        async with self._change:
            if work is not None:
                self._waiting.append(work)
            self._executors_left -= 1
            self._change.notify_all()


async def drive(connection: Connection, name: str, namespace: str, address: str) -> None:
    """Listen on a free port, create the executors, read the text while they start, and print the result. `name`,
    `namespace`, `address`: the name, the namespace and the address of the driver's pod."""
    token = secrets.token_urlsafe(32)
    work: asyncio.Future[WordCount] = asyncio.get_running_loop().create_future()
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (await asyncio.shield(work)).serve(reader, writer)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(accept, address, 0, limit=LINE_LIMIT_BYTES)
    port = server.sockets[0].getsockname()[1]
    me = await connection.get(PODS, name, namespace)
    for number in range(1, EXECUTORS + 1):
        await connection.create(PODS, executor(me, number, f"{address}:{port}", token), namespace)
    print(f"asked the API for {EXECUTORS} executors", flush=True)
    count = WordCount(await asyncio.to_thread(lambda: list(parts())), token, EXECUTORS)
    work.set_result(count)
    await count.finished()
    server.close()
    await asyncio.gather(*serving)
    print(summarize(count.counts).line(), flush=True)


async def _run() -> None:
    tls = ssl.create_default_context(cadata=os.environ["API_CA"])
    headers = {"Authorization": f"Bearer {os.environ['API_TOKEN']}"}
    async with Connection(os.environ["API_SERVER"], headers=headers, tls=tls) as connection:
        await drive(connection, os.environ["POD_NAME"], os.environ["POD_NAMESPACE"], os.environ["POD_IP"])


def main() -> int:
    try:
        asyncio.run(_run())
    except PhalanxError as error:
        print(f"{os.environ.get('APPLICATION', 'driver')}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
