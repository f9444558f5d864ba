"""Follow a Job from its submission to its end. Print the reasons while it waits, print its output while it runs, and
return its exit code. This module also explains why a job ended or cannot go on.

The output of a pod is shown from the start of its container on. If a Job has several pods, each line has the number of
its pod as a prefix, and lines of different pods are not mixed. An interactive Job has one pod, which gets standard
input.

Explanations come from the status of the job's objects, which its controller and the kubelets write. With `phalanx up`
the status contains details (`phalanx.embedded.node.pod.cause`). On other clusters the status has only the exit codes
and reasons of containers, and does not name the user who deleted an object."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from phalanx.cli.cluster.jobs.streaming import Exec
from phalanx.cli.files.manifest import waits_for_session
from phalanx.cli.terminal.conversation import converse
from phalanx.cli.terminal.output import counted, duration
from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import EVENTS, JOBS, PODS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import COMPLETION_INDEX, DELETED_BY, REASON
from phalanx.kube.read.workload.batch_job import ELSEWHERE

_POD = "; pod "  # in the message of a Job, the cause of the first pod's failure follows after this text
_LOG = "; its log ends:"
_LINE_CHARS = 120
# Reasons of Events about a pod whose volumes or network cannot be set up. Source: k8s.io/kubernetes/pkg/kubelet/events
# and pkg/controller/volume/attachdetach.
_SETUP_FAILURES = frozenset({"FailedMount", "FailedMapVolume", "FailedAttachVolume", "FailedCreatePodSandBox"})
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")  # terminal codes, for example for colours
# the reasons of a container that is still starting normally
_ON_THE_WAY = frozenset({"ContainerCreating", "PodInitializing"})


def ending_cause(obj: Object) -> str:
    """Return the reason why a Job, a training job or a bare pod ended; "" if it has not ended or has succeeded."""
    if obj.get("kind") == "Pod" or "containers" in obj["spec"]:
        return pod_failure(obj) or _deleted(obj)
    return failure(obj) or _deleted(obj)


def _deleted(obj: Object) -> str:
    who = (obj["metadata"].get("annotations") or {}).get(DELETED_BY)
    over = {one["type"] for one in (obj.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    return f"it was deleted by {who}" if who and not over & {"Complete", "Succeeded"} else ""


def failure(job: Object, pods: Iterable[Object] = ()) -> str:
    """Return the reason why the Job failed; "" if it did not fail. `pods`: the Job's pods; they are searched for the
    cause if the Job's conditions do not contain it."""
    if timed_out(job):
        return f"it reached its time limit ({duration(_limit_s(job))}) and was ended"
    message = str(_failed(job).get("message", ""))
    _, told, cause = message.partition(_POD)
    if told:
        return f"pod {cause}"
    found = next((text for pod in pods if (text := pod_failure(pod))), "") if message else ""
    return f"{message}; pod {found}" if found else message


def pod_failure(pod: Object) -> str:
    """Return a text with the name of a failed pod and the cause of the failure; "" if the pod did not fail."""
    status = pod.get("status") or {}
    if status.get("phase") != "Failed":
        return ""
    name, message = pod["metadata"]["name"], str(status.get("message") or "")
    if message.startswith("container "):
        return f"{name}: {message}"
    told = [f"exit code {code}" if (code := exit_code(pod)) else "", str(status.get("reason") or ""), message]
    return f"{name}: " + ("; ".join(text for text in told if text) or "failed")


def obstacles(pod: Object) -> list[str]:
    """Return the reasons that the kubelet reports for the containers of the pod that cannot start, one for each. The
    list is empty if the pod has no node, is being deleted, or has ended."""
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
    """Return True if the pod has a node, but no container has started, and the status of the containers gives no
    reason."""
    status = pod.get("status") or {}
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    begun = any("running" in state or "terminated" in state for state in states)
    return status.get("phase") == "Pending" and bool(pod["spec"].get("nodeName")) and not begun and not obstacles(pod)


def with_events(pod: Object, events: Iterable[Object]) -> Object:
    """Return a copy of the pod whose container statuses contain the failure that the pod's last Event reports.

    While a volume is missing, the kubelet leaves a container in `ContainerCreating`, and reports the cause only in an
    Event. If the last Event reports no failure (for example `Pulling`), return the pod unchanged."""
    last = max(events, key=_event_time, default=None)
    if last is None or last.get("reason") not in _SETUP_FAILURES:
        return pod
    status = pod.get("status") or {}
    known = status.get("containerStatuses") or [{"name": pod["spec"]["containers"][0]["name"]}]
    waiting = {"reason": last["reason"], "message": str(last.get("message") or "")}
    return {**pod, "status": {**status, "containerStatuses": [{**one, "state": {"waiting": waiting}} for one in known]}}


def _event_time(event: Object) -> str:
    """Return the time of an Event as a text in RFC 3339. Sorting such texts sorts the times."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((at for at in times if at), event["metadata"].get("creationTimestamp") or "")


def why_stuck(pods: Iterable[Object]) -> str:
    """Return a text that explains why the job with these pods is stuck: the cause for the first pod that cannot start,
    and the number of other pods that cannot start. Return "" if all pods can start."""
    found = sorted((pod["metadata"]["name"], told[0].rstrip(".")) for pod in pods if (told := obstacles(pod)))
    if not found:
        return ""
    (name, text), more = found[0], len(found) - 1
    return f"pod {name}, {text}" + (f"; {counted(more, 'more pod')} cannot start either" if more else "")


def in_brief(cause: str) -> str:
    """Return a cause as one line. If the cause contains the end of a log, only the last line of the log is kept,
    without control characters."""
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


Say = Callable[[str], None]

_LOG_TRIES = 20
_LOG_PAUSE_S = 0.25
_SCREEN_LINES = 100  # the number of lines of an earlier session that are shown again
_LOST = 1  # the exit code of the command if the job has no exit code
_TIMED_OUT = 124  # the exit code of timeout(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendance:
    """The result of a job that was followed to its end. `state`: complete, failed or deleted. `why`: the reason for the
    failure or the deletion."""

    state: str
    exit_code: int
    why: str


@dataclass(slots=True, kw_only=True)
class _Watch:
    """The present state of the followed Job. `job`: the last version of its object. `say`: prints a message.
    `prefixed`: True if each output line begins with the number of its pod. `reason`: the last printed reason. `gone`:
    True if the Job was deleted. `followed`: pod uid -> the task that shows the pod's output. `news`: an event that is
    set after each change."""

    job: Object
    say: Say
    prefixed: bool
    interactive: bool = False
    reason: str = ""
    gone: bool = False
    followed: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def see_job(self, change: Change) -> None:
        old = change.new or change.old or {}
        if old["metadata"]["uid"] != self.job["metadata"]["uid"]:
            return
        self.gone = change.new is None
        self.job = old
        self.tell((old["metadata"].get("annotations") or {}).get(REASON, ""))
        self.news.set()

    def see_event(self, change: Change) -> None:
        """If the Event contains the reason why the Job waits, print it. For a Job that runs in another cluster, only
        Events contain this reason."""
        if change.new is not None:
            self.tell(change.new.get("message") or "")

    def tell(self, why: str) -> None:
        """Print the reason why the Job waits, unless it is equal to the last printed reason."""
        if self.job["spec"].get("suspend") and why and why != self.reason:
            self.reason = why
            self.say(f"waiting: {why}")

    def follow(self, pod: Object, work: Coroutine[Any, Any, None]) -> None:
        """Start `work`, which shows the output of the pod, as a task."""
        task = self.followed[pod["metadata"]["uid"]] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self.news.set())

    def raise_broken(self) -> None:
        """Raise the error of the first task that failed, if there is one."""
        for task in self.followed.values():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error


async def attend(connection: Connection, job: Object, say: Say, *, interactive: bool = False) -> Attendance:
    """Print the reasons and the output of the Job until its end, and return the result. `interactive`: pass standard
    input to the Job's pod. Raises PhalanxError if the pod does not accept input."""
    meta = job["metadata"]
    prefixed = (job["spec"].get("parallelism") or 1) > 1
    watch = _Watch(job=job, say=say, prefixed=prefixed, interactive=interactive)
    selector = f"metadata.name={meta['name']}"
    jobs = Informer(connection, JOBS, namespace=meta["namespace"], fieldSelector=selector)
    pods = Informer(
        connection, PODS, namespace=meta["namespace"], labelSelector=f"batch.kubernetes.io/job-name={meta['name']}"
    )
    jobs.subscribe(watch.see_job)
    pods.subscribe(lambda change: _see_pod(connection, watch, change))
    informers = [jobs, pods]
    if job["spec"].get("managedBy") == ELSEWHERE:
        about = f"involvedObject.uid={meta['uid']},reason=Queued"
        informers.append(Informer(connection, EVENTS, namespace=meta["namespace"], fieldSelector=about))
        informers[-1].subscribe(watch.see_event)
    watching = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        while (ended := _ended(watch)) is None:
            await watch.news.wait()
            watch.news.clear()
            watch.raise_broken()
        async with asyncio.timeout(10):
            await pods.synced.wait()
        _follow_rest(connection, watch, pods)
        await asyncio.gather(*watch.followed.values())
        return _outcome(ended, watch, list(pods.objects.values()))
    finally:
        for task in [*watching, *watch.followed.values()]:
            task.cancel()


def _ended(watch: _Watch) -> str | None:
    if watch.gone:
        return "deleted"
    for condition in (watch.job.get("status") or {}).get("conditions") or ():
        if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
            return str(condition["type"]).lower()
    return None


def _outcome(state: str, watch: _Watch, pods: list[Object]) -> Attendance:
    if state == "complete":
        return Attendance(state=state, exit_code=0, why="")
    if state == "deleted":
        why = ending_cause(watch.job) or "it was deleted by another user or program"
        return Attendance(state=state, exit_code=_LOST, why=why)
    if timed_out(watch.job):
        return Attendance(state=state, exit_code=_TIMED_OUT, why=failure(watch.job))
    code = next((code for pod in pods if (code := exit_code(pod))), _LOST)
    brief = in_brief(failure(watch.job, pods))
    words = () if brief.startswith("pod ") else dict.fromkeys(text for pod in pods for text in _last_words(pod))
    # The terminal of an interactive job already shows the end of the output.
    told = [f"exit code {code}", *words, *([] if watch.interactive else [brief])]
    return Attendance(state=state, exit_code=code, why="; ".join(text for text in told if text))


def _last_words(pod: Object) -> list[str]:
    """Return the kubelet's messages about containers that ended abnormally, such as StartError or OOMKilled."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ended = ((container.get("state") or {}).get("terminated") or {} for container in statuses)
    told = (t for t in ended if t.get("reason") not in {None, "Completed", "Error"})
    return [": ".join(filter(None, (t["reason"], t.get("message")))) for t in told]


def _has_output(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any({"running", "terminated"} & set(container.get("state") or ()) for container in statuses)


def _see_pod(connection: Connection, watch: _Watch, change: Change) -> None:
    pod = change.new
    if pod is not None and pod["metadata"]["uid"] not in watch.followed and _has_output(pod):
        prefix = _prefix(pod) if watch.prefixed else ""
        watch.follow(pod, _converse(connection, watch, pod) if watch.interactive else _follow(connection, pod, prefix))
    if pod is not None:
        for obstacle in obstacles(pod):
            text = f"{pod['metadata']['name']}: {obstacle}"
            if text != watch.reason:
                watch.reason = text
                watch.say(text)


def _follow_rest(connection: Connection, watch: _Watch, pods: Informer) -> None:
    """Also follow the pods that the watch has not handled yet, because they started or ended after its last event."""
    for pod in list(pods.objects.values()):
        _see_pod(connection, watch, Change(kind=PODS, old=None, new=pod))


def _prefix(pod: Object) -> str:
    index = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX)
    return f"[{index if index is not None else pod['metadata']['name']}] "


async def _follow(connection: Connection, pod: Object, prefix: str) -> None:
    """Copy the pod's log to standard output, line by line, until its container ends. If the connection breaks, connect
    again and skip the lines that were already shown."""
    meta, shown = pod["metadata"], 0
    path = PODS.path(meta["namespace"], meta["name"], "log")
    for _ in range(_LOG_TRIES):
        try:
            async with connection.stream(path, {"follow": "true"}) as lines:
                number = 0
                async for line in lines:
                    number += 1
                    if number > shown:
                        sys.stdout.write(f"{prefix}{line.decode(errors='replace')}\n")
                        sys.stdout.flush()
                        shown = number
            return
        except ApiRefusal as error:
            if error.code == 404:  # the pod and its log were deleted
                return
        except ApiError:
            pass
        await asyncio.sleep(_LOG_PAUSE_S)


async def _converse(connection: Connection, watch: _Watch, pod: Object) -> None:
    """Connect standard input and output with the first container of the pod, until this container ends. Raises
    PhalanxError if the connection breaks while the pod runs."""
    container, meta = pod["spec"]["containers"][0], pod["metadata"]
    name, tty = f"{meta['namespace']}/{watch.job['metadata']['name']}", bool(container.get("tty"))
    if not tty and len(watch.followed) > 1:
        raise PhalanxError(
            f"pod {meta['name']} replaces a pod that has already read standard input, so nothing is left to read. "
            f"`phalanx cancel {name}` ends the job; then run it again."
        )
    try:
        screen = await _end_of_log(connection, pod) if tty else b""
        # the log has text only after an earlier session has sent this first line
        first = b"" if screen or not waits_for_session(container) else b"\n"
        async with Exec(connection, pod, container["name"], tty=tty, stdin=True) as session:
            await converse(session, at_terminal=tty, screen=screen, first=first)
    except PhalanxError as error:
        if await _runs(connection, pod):
            back = f"`phalanx attach {name}` connects again, `phalanx cancel {name}` ends the job."
            raise PhalanxError(f"{error} {back}") from error


async def _end_of_log(connection: Connection, pod: Object) -> bytes:
    """Return the last lines of the pod's log, which an earlier session has already shown."""
    path = PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"], "log")
    async with connection.stream(path, {"tailLines": str(_SCREEN_LINES)}) as lines:
        return b"\n".join([line async for line in lines])


async def _runs(connection: Connection, pod: Object) -> bool:
    """Return True if the pod still exists and runs, or if the server cannot be reached or refuses the request."""
    meta = pod["metadata"]
    try:
        now = await connection.get(PODS, meta["name"], meta["namespace"])
    except ApiRefusal as error:
        return error.code != 404
    except ApiError:
        return True
    same = now["metadata"]["uid"] == meta["uid"] and "deletionTimestamp" not in now["metadata"]
    return same and (now.get("status") or {}).get("phase") == "Running"
