"""Compute the next steps of a pod's containers. The steps depend only on the pod's spec, the known state of each
container, and the time.

The rules are those of the kubelet (pkg/kubelet/kuberuntime, computePodActions). Init containers run one after the
other; the sidecars among them are started in order and keep running. Then the main containers run at the same time. The
restart policy determines whether an ended container is restarted, after a pause that doubles from the second restart
on. When all main containers have ended and none will be restarted, the sidecars are stopped. Ephemeral containers start
at once, in any phase of the pod, and are never restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.node.container.attempt import Exited, Planned, RunningAttempt, State
from phalanx.embedded.node.pod.admission import every_container, is_sidecar

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStateWaiting:
    """The state of a container that cannot start: the reason and the message for its status. `retry_s`: the Unix time
    of the next attempt to start it."""

    reason: str
    message: str
    retry_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The known facts about a container. `state`: the state of its newest attempt; None if it was never started.
    `previous`: the end of the attempt before it. `waiting`: the reason why the next attempt waits."""

    number: int = 0  # the number of the newest attempt, which is the restartCount
    state: State | None = None
    previous: Exited | None = None
    ready: bool = False
    started: bool = False  # True if the startup probe and the postStart hook have succeeded
    waiting: ContainerStateWaiting | None = None
    image_id: str = ""  # the digest of the image, if the image has files
    failures: int = 0  # the number of restarts since the last long run; it determines the pause


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    first_s: float = 10.0
    most_s: float = 300.0

    def pause_s(self, failures: int) -> float:
        """Return the pause in seconds before the restart after `failures` restarts: 0 before the first one, then 10,
        20, 40 and so on."""
        return 0.0 if failures == 0 else min(self.first_s * 2.0 ** (failures - 1), self.most_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The next steps of a pod: the containers to `start` and to `stop`. `wake_s`: the Unix time at which the steps must
    be computed again at the latest; None if no time is set. `done`: True if no container runs or will run again."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    wake_s: float | None = None
    done: bool = False


def steps(spec: Object, known: Mapping[str, Known], now_s: float, back_off: BackOff, *, stopping: bool) -> Steps:
    """Return the next steps of a pod. `stopping`: True if the pod must end, because it is deleted, was rejected, or has
    exceeded its deadline."""
    if stopping:
        return _wind_down(spec, known)
    init, main = spec.get("initContainers") or (), spec["containers"]
    policy = spec.get("restartPolicy") or "Always"
    begun = any(known[one["name"]].state is not None for one in main)
    found = _Collector(known, now_s, back_off)
    for container in spec.get("ephemeralContainers") or ():
        if known[container["name"]].state is None:
            found.want(container["name"])
    for container in init:
        name, state = container["name"], known[container["name"]].state
        if is_sidecar(container):
            found.want(name)
            if not begun and not (isinstance(state, RunningAttempt) and known[name].started):
                return found.steps()
        elif not begun:
            if isinstance(state, Exited) and state.exit_code == 0:
                continue
            if isinstance(state, Exited) and policy == "Never":
                return _wind_down(spec, known)
            found.want(name)
            return found.steps()
    for container in main:
        found.want_again(container["name"], policy)
    if all(_is_over(known[one["name"]].state, policy) for one in main):
        return _wind_down(spec, known)
    return found.steps()


def restarts(state: State | None, policy: str) -> bool:
    return state is None or isinstance(state, Planned) or not _is_over(state, policy)


def _is_over(state: State | None, policy: str) -> bool:
    """Return True if the container has ended and will not be restarted."""
    return isinstance(state, Exited) and (policy == "Never" or (policy == "OnFailure" and state.exit_code == 0))


def _wind_down(spec: Object, known: Mapping[str, Known]) -> Steps:
    """Return the steps that end a pod: stop all containers except sidecars at the same time; then stop the sidecars one
    by one, in the reverse order of their start."""
    init = spec.get("initContainers") or ()
    others = [one["name"] for one in every_container(spec) if one not in init or not is_sidecar(one)]
    if up := _running(others, known):
        return Steps(stop=up)
    sidecars = [one["name"] for one in init if is_sidecar(one)]
    up = _running(reversed(sidecars), known)
    return Steps(stop=up[:1], done=not up)


def _running(names: Iterable[str], known: Mapping[str, Known]) -> tuple[str, ...]:
    return tuple(name for name in names if isinstance(known[name].state, RunningAttempt | Planned))


class _Collector:
    """Collects the containers to start, and the times of the next checks."""

    def __init__(self, known: Mapping[str, Known], now_s: float, back_off: BackOff) -> None:
        self._known, self._now_s, self._back_off = known, now_s, back_off
        self._start: list[str] = []
        self._wakes: list[float] = []

    def want(self, name: str) -> None:
        """If the container does not run, add it to the containers to start. If the pause before its start has not
        passed, add the end of the pause to the times at which the steps are computed again."""
        one = self._known[name]
        if isinstance(one.state, RunningAttempt | Planned):
            return
        due_s = start_due_s(one, self._back_off)
        if due_s <= self._now_s:
            self._start.append(name)
        else:
            self._wakes.append(due_s)

    def want_again(self, name: str, policy: str) -> None:
        if restarts(self._known[name].state, policy):
            self.want(name)

    def steps(self) -> Steps:
        return Steps(start=tuple(self._start), wake_s=min(self._wakes, default=None))


def start_due_s(one: Known, back_off: BackOff) -> float:
    """Return the Unix time from which the container may be started or restarted; 0 if it may start at once."""
    held_s = one.waiting.retry_s if one.waiting else 0.0
    if not isinstance(one.state, Exited):
        return held_s
    return max(held_s, one.state.finished_s + back_off.pause_s(one.failures))
