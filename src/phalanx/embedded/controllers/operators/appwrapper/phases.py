"""Compute the next status of an AppWrapper from its status and the observed components, without side effects.

    Suspended -> Resuming -> Running -> Succeeded | Failed
    Running, Resuming -> Resetting -> Resuming        failed components are removed and created again, after a pause
    Resuming, Running, Resetting -> Suspending -> Suspended

An AppWrapper that is reset keeps its quota and its nodes. An AppWrapper that succeeds releases its quota and its nodes
at once. Its success depends on its pods, not on the owners of the pods. It does not succeed as long as a failed pod
exists.

Source: internal/controller/appwrapper/appwrapper_controller.go of v1.2.1.

The first part reads the limit of retries and the grace periods from the annotations of an AppWrapper. A duration that
cannot be read is replaced by the default. A duration of more than a day is reduced to a day. Only the time to live
after success may be longer than a day; its maximum is its default.

Source: internal/controller/appwrapper/appwrapper_controller.go, api/v1beta2/appwrapper_types.go of v1.2.1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from phalanx.client.connection import Object
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.pod_state import condition, is_deleting, phase, seconds

_PREFIX: Final = "workload.codeflare.dev.appwrapper/"
_DAY_S, _SUCCESS_S = 86_400.0, 7 * 86_400.0
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}  # the units of Go durations
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern}){{1,8}}|0")
_DEFAULTS_S: Final[Mapping[str, float]] = {
    "admissionGracePeriodDuration": 60.0,
    "warmupGracePeriodDuration": 300.0,
    "failureGracePeriodDuration": 60.0,
    "retryPausePeriodDuration": 90.0,
    "forcefulDeletionGracePeriodDuration": 600.0,
    "deletionOnFailureGracePeriodDuration": 0.0,
    "successTTLDuration": _SUCCESS_S,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """The retries and grace periods of an AppWrapper, in seconds. `terminal`, `retryable`: exit codes. If some exit
    codes are retryable, every other exit code is terminal."""

    admission_s: float
    warmup_s: float
    failure_s: float
    pause_s: float
    forceful_s: float
    on_failure_s: float
    success_s: float
    retries: int
    terminal: frozenset[int]
    retryable: frozenset[int]

    def ends(self, code: int) -> bool:
        """Return True if the AppWrapper must not be retried after a container has ended with this exit code."""
        return code != 0 and (code in self.terminal or (bool(self.retryable) and code not in self.retryable))


def settings_of(meta: Mapping[str, Any]) -> RetrySettings:
    """Return the settings in the annotations of an AppWrapper."""
    notes = meta.get("annotations") or {}
    times = {name: _seconds(notes.get(_PREFIX + name), name) for name in _DEFAULTS_S}
    admission, warmup, failure, pause, forceful, on_failure, success = times.values()
    limit = str(notes.get(f"{_PREFIX}retryLimit", ""))
    return RetrySettings(
        admission_s=admission,
        warmup_s=max(admission, warmup),
        failure_s=failure,
        pause_s=pause,
        forceful_s=forceful,
        on_failure_s=on_failure,
        success_s=success,
        retries=int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 9 else 3,
        terminal=_read_codes(notes.get(f"{_PREFIX}terminalExitCodes")),
        retryable=_read_codes(notes.get(f"{_PREFIX}retryableExitCodes")),
    )


def _seconds(text: object, name: str) -> float:
    default = _DEFAULTS_S[name]
    if text is None or not _DURATION.fullmatch(str(text)):
        return default
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(str(text)))
    return min(seconds, max(_DAY_S, default))


def _read_codes(text: object) -> frozenset[int]:
    parts = (part.strip() for part in str(text or "").split(","))
    return frozenset(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 9)


class Do(Enum):
    """An action that the controller takes besides writing the status."""

    NOTHING = "nothing"
    CREATE = "create"  # create the components that do not exist
    DELETE = "delete"  # delete all components
    FORCE = "force"  # delete the components, and their pods without a grace period


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedComponents:
    """The observed components and pods. `expected`: the number of pods that should exist. `missing`: the names of
    missing components. `components`: each component, in order; None if it is missing. `there`: True if any component
    exists. `failed`: a component that reports a failure. `fault`: the error of the creation of a component. `fatal`:
    True if the error is permanent. `evicted`: True if a pod is on a node that its pods must leave."""

    pods: Sequence[Object]
    expected: int
    missing: Sequence[str] = ()
    components: Sequence[Object | None] = ()
    there: bool = False
    failed: str = ""
    fault: str = ""
    fatal: bool = False
    evicted: bool = False


@dataclass(slots=True)
class PhaseStep:
    """The next status, the actions to take, and the time of the next reconciliation (seconds since the epoch; 0:
    none)."""

    status: Object
    now_s: float
    do: Do = Do.NOTHING
    look_s: float = 0.0
    events: list[tuple[str, str]] = field(default_factory=list)

    def to(self, phase: str) -> None:
        self.status["phase"] = phase
        self.look_s = self.now_s

    def set(self, kind: str, value: bool, reason: str, message: str = "") -> None:
        """Set the condition. Its time of transition changes only if its status changes."""
        entries: list[dict[str, object]] = self.status.setdefault("conditions", [])
        old = next((one for one in entries if one["type"] == kind), None)
        status = "True" if value else "False"
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else write_moment(self.now_s)
        said = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
        if old is None:
            entries.append(said)
        else:
            old.update(said)

    def since(self, kind: str) -> float:
        """Return the time at which the condition got its status; the present time if the condition does not exist."""
        found = self.condition(kind)
        return seconds(found["lastTransitionTime"]) if found is not None else self.now_s

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return the condition of the type `kind`; None if there is none."""
        return condition({"status": self.status}, kind)

    def wait(self, until_s: float) -> bool:
        """Return True if the time `until_s` has passed. Otherwise request a reconciliation at that time, and return
        False."""
        if until_s > self.now_s:
            self.look_s = min(self.look_s, until_s) if self.look_s else until_s
        return until_s <= self.now_s

    def unhealthy(self, reason: str, message: str) -> None:
        self.set("Unhealthy", True, reason, message)
        self.events.append(("Unhealthy", f"{reason}: {message}"))


def step(status: Object, suspended: bool, seen: ObservedComponents, settings: RetrySettings, now_s: float) -> PhaseStep:
    """Return the next step of an AppWrapper with the given status."""
    at = PhaseStep(status={**status, "conditions": [dict(one) for one in status.get("conditions") or ()]}, now_s=now_s)
    now = status.get("phase") or ""
    if suspended and now in ("Resuming", "Running", "Resetting"):
        at.events.append(("Suspending", f"Externally suspended while in the {now} phase"))
        at.to("Suspending")
        return at
    match now:
        case "":
            at.set("QuotaReserved", False, "Suspended")
            at.set("ResourcesDeployed", False, "Suspended")
            at.to("Suspended")
        case "Suspended" if suspended:
            _suspended(at, seen)
        case "Suspended":
            _resume(at)
        case "Resuming":
            _resuming(at, seen, settings)
        case "Running":
            _running(at, seen, settings)
        case "Suspending":
            if _removed(at, seen, settings):
                for kind in ("QuotaReserved", "ResourcesDeployed", "PodsReady", "Unhealthy"):
                    at.set(kind, False, "Suspended")
                at.to("Suspended")
        case "Resetting":
            _resetting(at, seen, settings)
        case "Failed":
            _failed(at, seen, settings)
        case "Succeeded":
            _succeeded(at, seen, settings)
    return at


# --- phases -----------------------------------------------------------------------------------------------------------


def _suspended(at: PhaseStep, seen: ObservedComponents) -> None:
    """Report a permanent error at once: the scheduler would never resume such an AppWrapper, because it finds no pods
    in it."""
    known = at.condition("Unhealthy") or {}
    if seen.fault and seen.fatal:
        if known.get("status") != "True" or known.get("message") != seen.fault:
            at.unhealthy("CreateFailed", seen.fault)
    elif known.get("status") == "True":
        at.set("Unhealthy", False, "Suspended")


def _resume(at: PhaseStep) -> None:
    at.set("QuotaReserved", True, "Resuming", "Suspend is false")
    at.set("ResourcesDeployed", True, "Resuming", "Suspend is false")
    at.set("PodsReady", False, "Resuming")
    at.set("Unhealthy", False, "Resuming")
    at.to("Resuming")


def _resuming(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings) -> None:
    if not seen.missing:
        at.to("Running")
    elif seen.fault and seen.fatal:
        at.unhealthy("CreateFailed", seen.fault)
        at.to("Failed")
    elif seen.fault and at.wait(at.since("ResourcesDeployed") + settings.admission_s):
        at.unhealthy("CreateFailed", seen.fault)
        _reset(at, seen, settings)
    else:
        at.do = Do.CREATE


def _running(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings) -> None:
    counts = {one: sum(phase(pod) == one for pod in seen.pods) for one in ("Pending", "Running", "Succeeded", "Failed")}
    if seen.missing:
        at.unhealthy("MissingComponent", f"found that {', '.join(seen.missing)} is gone")
        at.to("Failed")
    elif seen.failed:
        at.unhealthy("FailedComponent", seen.failed)
        _reset(at, seen, settings)
    elif counts["Succeeded"] >= seen.expected and not (counts["Pending"] or counts["Running"] or counts["Failed"]):
        at.set("QuotaReserved", False, "Succeeded")
        at.set("ResourcesDeployed", True, "Succeeded")
        at.to("Succeeded")
    elif counts["Failed"]:
        found = at.condition("Unhealthy")
        if found is None or found["reason"] != "FoundFailedPods":
            at.unhealthy("FoundFailedPods", f"{counts['Failed']} failed pods exist")
        if at.wait(at.since("Unhealthy") + settings.failure_s):
            _reset(at, seen, settings)
    elif seen.evicted:
        at.unhealthy("AutopilotNoExecute", "a pod is on a node that its pods must leave")
        at.set("PodsReady", False, "Resetting")
        at.to("Resetting")
    else:
        at.set("Unhealthy", False, "FoundNoFailedPods")
        _ready(at, seen, settings, counts)


def _ready(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings, counts: dict[str, int]) -> None:
    running = counts["Running"] + counts["Succeeded"]
    text = f"{counts['Running']} pods running; {counts['Succeeded']} pods succeeded; {seen.expected} expected"
    if running >= seen.expected:
        at.set("PodsReady", True, "SufficientPodsReady", text)
        return
    at.set("PodsReady", False, "InsufficientPodsReady", text)
    patience_s = settings.warmup_s if running + counts["Pending"] >= seen.expected else settings.admission_s
    if at.wait(at.since("ResourcesDeployed") + patience_s):
        at.unhealthy("InsufficientPodsReady", text)
        _reset(at, seen, settings)


def _reset(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings) -> None:
    """Start a reset, unless all attempts are used, or a program ended with an exit code that is not retried."""
    tried = int(at.status.get("resettingCount") or 0)
    at.set("PodsReady", False, "Resetting")
    if tried >= settings.retries or any(settings.ends(code) for pod in seen.pods for code in _exit_codes(pod)):
        at.to("Failed")
        return
    at.status["resettingCount"] = tried + 1
    at.to("Resetting")


def _resetting(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings) -> None:
    if not _removed(at, seen, settings):
        return
    at.set("ResourcesDeployed", False, "Resetting")
    if at.wait(at.since("Unhealthy") + settings.pause_s):
        _resume(at)


def _failed(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings) -> None:
    deployed = at.condition("ResourcesDeployed")
    if deployed is not None and deployed["status"] != "True":
        return
    if at.wait(at.since("Unhealthy") + settings.on_failure_s) and _removed(at, seen, settings):
        at.set("PodsReady", False, "Failed")
        at.set("QuotaReserved", False, "Failed")
        at.set("ResourcesDeployed", False, "Failed")


def _succeeded(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings) -> None:
    deployed = at.condition("ResourcesDeployed")
    if deployed is None or deployed["status"] != "True":
        return
    if at.wait(at.since("QuotaReserved") + settings.success_s) and _removed(at, seen, settings):
        at.set("ResourcesDeployed", False, "Succeeded", "Time to live after success expired")


def _removed(at: PhaseStep, seen: ObservedComponents, settings: RetrySettings) -> bool:
    """Return True if no component and no pod exists any more. Otherwise request the deletion of the components. After
    the grace period `forceful_s`, also request the deletion of the pods without a grace period."""
    if not seen.there and not seen.pods:
        if at.condition("DeletingResources") is not None:
            at.set("DeletingResources", False, "DeletionComplete")
        return True
    at.set("DeletingResources", True, "DeletionInitiated")
    forced = at.wait(at.since("DeletingResources") + settings.forceful_s)
    at.do = Do.FORCE if forced else Do.DELETE
    return False


def _exit_codes(pod: Object) -> list[int]:
    """Return the exit codes of the pod's containers that have ended."""
    if is_deleting(pod):
        return []
    entries = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [((entry.get("state") or {}).get("terminated") or {}) for entry in entries]
    return [int(end["exitCode"]) for end in ends if "exitCode" in end]
