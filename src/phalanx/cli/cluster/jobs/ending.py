"""Explain why a job ended or cannot go on. The text comes from its objects, as its controller and its pods' nodes wrote
them.

The API server and the node of `phalanx up` say much (`phalanx.embedded.node.agent.cause`); on another cluster a pod has
its containers' exit codes and reasons, and who deleted an object is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from phalanx.cli.terminal.output import counted, duration
from phalanx.client.connection import Object
from phalanx.kube.read.labels import DELETED_BY

_POD = "; pod "  # in a Job's message: precedes the cause of the first failed pod
_LOG = "; its log ends:"
_LINE_CHARS = 120
# Reasons of events about a pod whose volumes or network cannot be set up: k8s.io/kubernetes/pkg/kubelet/events, and
# pkg/controller/volume/attachdetach.
_SETUP_FAILURES = frozenset({"FailedMount", "FailedMapVolume", "FailedAttachVolume", "FailedCreatePodSandBox"})
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")  # terminal codes, for example for colours
_ON_THE_WAY = frozenset({"ContainerCreating", "PodInitializing"})  # the container has not started yet


def ending_cause(obj: Object) -> str:
    """Return why a Job, a training job or a bare pod ended; "" if it has not ended, or has succeeded."""
    if obj.get("kind") == "Pod" or "containers" in obj["spec"]:
        return pod_failure(obj) or _deleted(obj)
    return failure(obj) or _deleted(obj)


def _deleted(obj: Object) -> str:
    who = (obj["metadata"].get("annotations") or {}).get(DELETED_BY)
    over = {one["type"] for one in (obj.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    return f"it was deleted by {who}" if who and not over & {"Complete", "Succeeded"} else ""


def failure(job: Object, pods: Iterable[Object] = ()) -> str:
    """Return why the Job failed; "" if it did not. `pods`: the Job's pods, which are examined if the Job's conditions
    do not contain the cause."""
    if timed_out(job):
        return f"it had run as long as it may ({duration(_limit_s(job))}) and was ended"
    message = str(_failed(job).get("message", ""))
    _, told, cause = message.partition(_POD)
    if told:
        return f"pod {cause}"
    found = next((text for pod in pods if (text := pod_failure(pod))), "") if message else ""
    return f"{message}; pod {found}" if found else message


def pod_failure(pod: Object) -> str:
    """Return the name of a failed pod and how the pod ended; "" if the pod did not fail."""
    status = pod.get("status") or {}
    if status.get("phase") != "Failed":
        return ""
    name, message = pod["metadata"]["name"], str(status.get("message") or "")
    if message.startswith("container "):
        return f"{name}: {message}"
    told = [f"exit code {code}" if (code := exit_code(pod)) else "", str(status.get("reason") or ""), message]
    return f"{name}: " + ("; ".join(text for text in told if text) or "failed")


def obstacles(pod: Object) -> list[str]:
    """Return why containers of a pod that has a node cannot start, in the words of its node; [] if nothing hinders."""
    status = pod.get("status") or {}
    if not pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
        return []
    if status.get("phase") in {"Succeeded", "Failed"}:
        return []
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    waiting = ((one["name"], (one.get("state") or {}).get("waiting") or {}) for one in containers)
    return [
        f"container {name}: " + ": ".join(filter(None, (found["reason"], " ".join(found.get("message", "").split()))))
        for name, found in waiting
        if found.get("reason") and (found["reason"] not in _ON_THE_WAY or found.get("message"))
    ]


def is_silent(pod: Object) -> bool:
    """Return True for a pending pod with a node, if no container has started and no container's status contains a
    cause."""
    status = pod.get("status") or {}
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    begun = any("running" in state or "terminated" in state for state in states)
    return status.get("phase") == "Pending" and bool(pod["spec"].get("nodeName")) and not begun and not obstacles(pod)


def with_events(pod: Object, events: Iterable[Object]) -> Object:
    """Return the pod with the cause for which it does not start, if the last of its events names one.

    A kubelet leaves a container in `ContainerCreating` while a volume is missing, and reports the cause in an event of
    the pod only. If a later event shows that the pod goes on (`Pulling`), the pod is returned unchanged."""
    last = max(events, key=_event_time, default=None)
    if last is None or last.get("reason") not in _SETUP_FAILURES:
        return pod
    status = pod.get("status") or {}
    known = status.get("containerStatuses") or [{"name": pod["spec"]["containers"][0]["name"]}]
    waiting = {"reason": last["reason"], "message": str(last.get("message") or "")}
    return {**pod, "status": {**status, "containerStatuses": [{**one, "state": {"waiting": waiting}} for one in known]}}


def _event_time(event: Object) -> str:
    """Return the time of an event as RFC 3339; such texts sort by time."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((at for at in times if at), event["metadata"].get("creationTimestamp") or "")


def why_stuck(pods: Iterable[Object]) -> str:
    """Return why the job with these pods is stuck: the cause for the first pod that cannot start, and the number of
    further such pods. "": the job is not stuck."""
    found = sorted((pod["metadata"]["name"], told[0].rstrip(".")) for pod in pods if (told := obstacles(pod)))
    if not found:
        return ""
    (name, text), more = found[0], len(found) - 1
    return f"pod {name}, {text}" + (f"; {counted(more, 'more pod')} cannot start either" if more else "")


def in_brief(cause: str) -> str:
    """Return a cause as one line. Of the log it keeps only the last line, without control characters."""
    first, _, rest = cause.partition("\n")
    if not first.endswith(_LOG):
        return first
    last = next((line.strip() for line in reversed(rest.splitlines()) if line.startswith("  ")), "")
    return f"{first.removesuffix(_LOG)}: {_CONTROL.sub('', last)[:_LINE_CHARS]}"


def timed_out(job: Object) -> bool:
    return _failed(job).get("reason") == "DeadlineExceeded"


def _limit_s(job: Object) -> float:
    spec = job["spec"]
    return float(spec.get("activeDeadlineSeconds") or (spec.get("runPolicy") or {}).get("activeDeadlineSeconds") or 0)


def _failed(job: Object) -> Object:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if (each["type"], each["status"]) == ("Failed", "True")), {})


def exit_code(pod: Object) -> int:
    """Return the exit code of the pod's first failed container; 0 if no container failed."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if code := ((container.get("state") or {}).get("terminated") or {}).get("exitCode"):
            return int(code)
    return 0
