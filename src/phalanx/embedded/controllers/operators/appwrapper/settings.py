"""Read the retries and grace periods from the annotations of an AppWrapper.

A duration that cannot be read is the default; more than a day is cut to a day, and a success TTL to its default.

Source: internal/controller/appwrapper/appwrapper_controller.go, api/v1beta2/appwrapper_types.go of v1.2.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
    """Times are in seconds. `terminal`, `retryable`: exit codes; with some retryable every other is terminal."""

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
        """Return True if a container with this exit code is not retried."""
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
        terminal=_codes(notes.get(f"{_PREFIX}terminalExitCodes")),
        retryable=_codes(notes.get(f"{_PREFIX}retryableExitCodes")),
    )


def _seconds(text: Any, name: str) -> float:
    default = _DEFAULTS_S[name]
    if text is None or not _DURATION.fullmatch(str(text)):
        return default
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(str(text)))
    return min(seconds, max(_DAY_S, default))


def _codes(text: Any) -> frozenset[int]:
    parts = (part.strip() for part in str(text or "").split(","))
    return frozenset(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 9)
