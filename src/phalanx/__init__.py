"""Phalanx: a batch scheduler. A job starts whole or not at all.

Seven nouns (Job, Queue, Node, Cluster, Event, Plan, Reason) in `phalanx.model`, four verbs (read, fold, decide,
apply) in `phalanx.core` and the worlds. Start reading at `phalanx.loop` and `phalanx.core.decide`.

From Python: `phalanx.submit`, `wait`, `logs`, `explain`, `jobs`, `queues` and `simulate`, and the same as coroutines in
`phalanx.aio` (docs/guide/python.md). They are imported when they are first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.api import aio as aio
    from phalanx.api.blocking import explain as explain
    from phalanx.api.blocking import jobs as jobs
    from phalanx.api.blocking import logs as logs
    from phalanx.api.blocking import queues as queues
    from phalanx.api.blocking import simulate as simulate
    from phalanx.api.blocking import submit as submit
    from phalanx.api.blocking import wait as wait
    from phalanx.api.cluster import Cluster as Cluster
    from phalanx.api.values import WaitingJob as WaitingJob
    from phalanx.errors import PhalanxError as PhalanxError

__version__ = "0.1.0"
_CALLS = dict.fromkeys(("explain", "jobs", "logs", "queues", "simulate", "submit", "wait"), "phalanx.api.blocking")
_FOUND = {
    **_CALLS,
    "Cluster": "phalanx.api.cluster",
    "PhalanxError": "phalanx.errors",
    "WaitingJob": "phalanx.api.values",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "aio":
        return import_module("phalanx.api.aio")
    if name in _FOUND:
        return getattr(import_module(_FOUND[name]), name)
    raise AttributeError(f"module 'phalanx' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_FOUND, "aio"])
