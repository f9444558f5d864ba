"""Explain why a pod ended, from the exit records of its containers and from its API object. The functions have no side
effects.

The kernel does not report to a parent process which process has sent a signal to its child. The node records its own
signals with their reasons, and the kernel counts its out-of-memory kills. Any other SIGKILL came from a user of the
machine or from the program itself, and the returned text states that.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from phalanx.embedded.node.container.attempt import Exited
from phalanx.embedded.node.pod.admission import limits
from phalanx.embedded.node.pod.lifecycle import Known

Object = Mapping[str, Any]
DELETED_BY = "phalanx.dev/deleted-by"  # an annotation by the API server: the user who deleted the object
_PREEMPTED = "phalanx.dev/preempted"  # the annotation that the scheduler writes before it evicts a pod
_REASONS = ("Completed", "Error", "OOMKilled", "StartError")  # reasons for which this module has its own messages
_MIB = 1 << 20
# If the peak memory of a container stayed below its limit by more than this amount, and by more than a tenth of the
# limit, the out-of-memory kill was not caused by the limit.
_LEFT_BYTES = 16 * _MIB


def pod_cause(pod: Object, known: Mapping[str, Known]) -> str:
    """Return a message about the failed containers of the pod: how each of them ended, and the end of its log. Return
    "" if none failed."""
    both = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    states = [(one, known[one["name"]].state) for one in both]
    failed = [(one, end) for one, end in states if isinstance(end, Exited) and end.exit_code]
    return "\n".join(_told(f"container {one['name']}: {container_cause(one, end)}", end) for one, end in failed)


def _told(how: str, end: Exited) -> str:
    lines = "".join(f"\n  {line}" for line in end.log_end.splitlines())
    return f"{how}; its log ends:{lines}" if lines else how


def container_cause(container: Object, end: Exited) -> str:
    """Return one line about the end of a container."""
    if end.reason == "OOMKilled":
        return out_of_memory(container, end)
    if end.reason == "StartError":
        return f"it could not be started: {end.message}"
    if end.reason and end.reason not in _REASONS:
        return end.message
    how = f"exit code {end.exit_code}"
    if end.signal:
        how = f"killed by {_name(end.signal)} (exit code {end.exit_code})"
    if end.told:
        return f"{how}, told to stop: {end.told}"
    if end.signal == signal.SIGKILL:
        return f"{how}, sent by a user of this machine or by the program itself, not by Phalanx or for lack of memory"
    return how


def out_of_memory(container: Object, end: Exited) -> str:
    """Return the container's memory usage and its limit as text."""
    said = limits(container).get("memory")
    most = said or end.memory_limit_bytes
    limit = f"its limit is {most // _MIB}Mi" if most else "the limit is that of an enclosing control group"
    limit += ", this machine's default, because it sets none" if most and not said else ""
    killed = "out of memory (OOM), killed by the kernel"
    if end.signal != signal.SIGKILL:  # the kernel killed only a child process of the program
        killed = f"exit code {end.exit_code}, after one of its processes ran {killed}"
    peak = f", its peak was {end.peak_memory_bytes // _MIB}Mi" if end.peak_memory_bytes else ""
    if end.peak_memory_bytes and most - end.peak_memory_bytes > max(most // 10, _LEFT_BYTES):
        why = "the machine had no memory left, and the kernel first kills containers with small memory requests"
        return f"{killed} below its limit: {limit}{peak}; {why}"
    return f"{killed}: {limit}{peak}"


def deletion_cause(pod: Object) -> str:
    """Return a message with the user or program that deleted the pod, and with the purpose, if the pod's object
    contains them."""
    meta, status = pod["metadata"], pod.get("status") or {}
    notes = meta.get("annotations") or {}
    if who := notes.get(DELETED_BY):
        return f"the pod was deleted by {who}"
    for one in status.get("conditions") or ():
        if one["type"] == "DisruptionTarget" and one.get("status") == "True":
            preempted = f" (preempted: {notes[_PREEMPTED]})" if _PREEMPTED in notes else ""
            return f"the pod was evicted: {one.get('message') or one.get('reason')}{preempted}"
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
    if owner is not None:
        return f"{owner['kind']} {owner['name']} has ended, was deleted, was preempted, or needs fewer pods"
    return "the pod was deleted"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
