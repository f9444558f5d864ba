"""An executor: `python -m phalanx.demo.executor`. It receives text from its driver and returns word counts.

The executor reads DRIVER_ADDRESS (HOST:PORT), DRIVER_TOKEN and POD_NAME from the environment.
"""

from __future__ import annotations

import asyncio
import os
import sys

from phalanx.demo.wire import LINE_LIMIT_BYTES, ConnectionLost, Counted, Goodbye, Hello, Work, receive, send
from phalanx.demo.words import count


async def work(host: str, port: int, token: str, name: str) -> int:
    """Count the words of each part that the driver sends, until its `Goodbye`. Return the number of parts."""
    reader, writer = await asyncio.open_connection(host, port, limit=LINE_LIMIT_BYTES)
    done = 0
    try:
        await send(writer, Hello(token, name))
        while True:
            match await receive(reader):
                case Work(part, text):
                    await send(writer, Counted(part, dict(count(text))))
                    done += 1
                case Goodbye():
                    return done
                case unexpected:
                    raise ConnectionLost(f"the driver says {type(unexpected).__name__}, which is not its part")
    finally:
        writer.close()


def main() -> int:
    host, _, port = os.environ["DRIVER_ADDRESS"].rpartition(":")
    name = os.environ.get("POD_NAME", "executor")
    try:
        done = asyncio.run(work(host, int(port), os.environ["DRIVER_TOKEN"], name))
    except (ConnectionLost, OSError) as error:
        print(f"{name}: lost the driver at {host}:{port}: {error}", file=sys.stderr)
        return 1
    print(f"{name}: counted {done} parts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
