"""Rules of the kernel, by nft(8): loaded, looked for."""

from __future__ import annotations

import asyncio

from phalanx.errors import PhalanxError


async def load(text: str) -> None:
    """Load rules, all or none. Raises PhalanxError."""
    await nft(text, "-f", "-")


async def is_loaded(table: str) -> bool:
    """Return whether the kernel has this table."""
    try:
        await nft(None, "--terse", "list", "table", *table.split())
    except PhalanxError:
        return False
    return True


def without(table: str) -> str:
    """Return the rules that delete a table, whether or not it exists."""
    return f"table {table}\ndelete table {table}\n"


async def nft(text: str | None, *options: str) -> None:
    """Run nft. `text`: its input. Raises PhalanxError if nft is missing, or the kernel refuses the rules."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        reads = nothing if text is None else pipe  # to one that does not read and is over, nothing can be written
        process = await asyncio.create_subprocess_exec("nft", *options, stdin=reads, stdout=nothing, stderr=pipe)
    except OSError as error:
        raise PhalanxError(f"nft(8) cannot be run: {error.strerror}; install nftables") from None
    _, said = await process.communicate(None if text is None else text.encode())
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        raise PhalanxError(
            f"the kernel does not take the rules of the network: {lines[0] if lines else process.returncode}"
        )
