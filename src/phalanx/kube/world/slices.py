"""Run long work without blocking the other tasks of the process, such as the renewal of the Lease.

Long work is a generator that yields after each object. The caller decides whether the work runs as a whole or in
slices."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 256  # more actions or gangs than this are processed in slices


async def run_in_slices(steps: Iterator[None], most_s: float = 0.02) -> None:
    """Run all steps. After every `most_s` seconds, let other tasks run."""
    clock = asyncio.get_running_loop().time
    began_s = clock()
    for _ in steps:
        if clock() - began_s > most_s:
            await asyncio.sleep(0)
            began_s = clock()


@contextmanager
def without_collection() -> Iterator[None]:
    """Disable garbage collection inside the context. At the end of the context, exclude all existing objects from later
    collections. The objects of the caches stay alive anyway, and a collection that visits 100,000 pods would block all
    other tasks for seconds."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
