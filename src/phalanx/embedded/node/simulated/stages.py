"""Decide when and how a simulated pod ends: by Phalanx's annotation, or by KWOK's default stages.

`phalanx.dev/run-seconds` sets how long a pod runs after all pods of its job are ready. KWOK's stage `pod-complete` ends
pods whose owner is a Job of any group: on a KWOK node at once, or after the delay of an annotation.
`pod-container-running-failed` fails pods with its label. Users' own stages are not read.

Source: kustomize/stage/pod/{fast,general,chaos} of KWOK v0.8.0.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from phalanx.client.connection import Object

RUN_SECONDS: Final = "phalanx.dev/run-seconds"
FAKE_NODE: Final = ("kwok.x-k8s.io/node", "fake")  # annotation of nodes that KWOK plays
PROVIDED_NODE: Final = "phalanx.dev/simulated-node"  # annotation of nodes of simulated node groups
_COMPLETE: Final = "pod-complete.stage.kwok.x-k8s.io"
_FAIL: Final = "pod-container-running-failed.stage.kwok.x-k8s.io"
_FAIL_AFTER_S: Final = 1.0
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern}){{1,8}}|0")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnding:
    """The end of a simulated pod. `after_s`: the time to the end, from the moment when all pods of its job are ready.
    `alone`: True to count from the moment when this pod is ready."""

    after_s: float
    phase: str = "Succeeded"
    code: int = 0
    reason: str = "Completed"
    message: str = ""
    alone: bool = False


def is_fake(node: Object) -> bool:
    """Return whether the node is one that KWOK would play."""
    key, value = FAKE_NODE
    return (node["metadata"].get("annotations") or {}).get(key) == value


def is_provided(node: Object) -> bool:
    """Return whether the node was made by a simulated provider of a node group."""
    return (node["metadata"].get("annotations") or {}).get(PROVIDED_NODE) == "true"


def ending(pod: Object, *, fake: bool) -> StageEnding | None:
    """Return how a pod ends; None: it runs for ever. `fake`: its node is one of KWOK's."""
    meta = pod["metadata"]
    words: Mapping[str, Any] = meta.get("annotations") or {}
    if (meta.get("labels") or {}).get(_FAIL) == "true":
        return _failure(words)
    if RUN_SECONDS in words:
        after_s = _number(words[RUN_SECONDS])
        return StageEnding(after_s=after_s) if after_s is not None else None
    of_a_job = any(owner.get("kind") == "Job" for owner in meta.get("ownerReferences") or ())
    if of_a_job and (fake or f"{_COMPLETE}/delay" in words):
        return StageEnding(after_s=_delay_s(words, _COMPLETE, 0.0))
    return None


def _failure(words: Mapping[str, Any]) -> StageEnding:
    code = str(words.get(f"{_FAIL}/exit-code", "1"))
    return StageEnding(
        after_s=_delay_s(words, _FAIL, _FAIL_AFTER_S),
        phase="Failed",
        code=int(code) if code.isascii() and code.isdigit() and len(code) < 4 else 1,
        reason=str(words.get(f"{_FAIL}/reason", "containerFailed")),
        message=str(words.get(f"{_FAIL}/message", "container failed")),
        alone=True,
    )


def _delay_s(words: Mapping[str, Any], stage: str, default_s: float) -> float:
    """Return the delay of a stage. If its jitter is longer than its delay, return a random time between both; if it is
    shorter, return the jitter (as KWOK does)."""
    delay_s = _seconds(words.get(f"{stage}/delay"), default_s)
    jitter_s = _seconds(words.get(f"{stage}/jitter-delay"), -1.0)
    if jitter_s < 0.0:
        return delay_s
    return jitter_s if jitter_s <= delay_s else random.uniform(delay_s, jitter_s)


def _seconds(text: Any, default_s: float) -> float:
    """Return the seconds of a Go duration; the default if the text is none."""
    if text is None or not _DURATION.fullmatch(str(text)):
        return default_s
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(str(text)))


def _number(text: Any) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
