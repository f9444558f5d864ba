"""A gang as a question to the scheduler of a worker: when would it start there? And the answer.

    GET /apis/visibility.phalanx.dev/v1/namespaces/NAMESPACE/jobs/-/start?job=QUESTION

The question is JSON: the options that queue the gang, its priority, its time limit, and its pods. Names are left out,
so equal gangs have one question. The answer counts in seconds from now, so the clocks of two clusters need not agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any, Final, NamedTuple

import msgspec

from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.kube.gang.spec.elsewhere import Sought
from phalanx.kube.read import labels
from phalanx.kube.status.queue_status import exact
from phalanx.model.reason import NEVER, ReasonCode

API: Final = "/apis/visibility.phalanx.dev/v1"
_LONGEST, _LONGEST_TEXT = 3000, 300  # characters of a question, which becomes a part of a URL, and of a reason
_OPTIONS: Final = (
    *(labels.QUEUE, "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class", labels.GROUP, labels.QOS),
    *(labels.ESTIMATE, labels.PREEMPTIBLE, labels.RESERVATION, labels.DEADLINE),
)
MOST_PODS = 100_000
_NEVER: Final = NEVER | {ReasonCode.QUEUE_UNKNOWN, ReasonCode.QUEUE_CLOSED, ReasonCode.QUEUE_MISCONFIGURED}


class AskedPods(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Equal pods. `requests`: quantities."""

    count: int
    requests: dict[str, str]
    selector: dict[str, str] = {}
    tolerations: list[dict[str, str]] = []


class StartQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gang without names. `limit_s`: its time limit in seconds; 0: none."""

    options: dict[str, str]
    pods: list[AskedPods]
    priority: int = 0
    limit_s: float = 0.0


class StartOutlook(NamedTuple):
    """When a cluster expects to start the gang. `start_s`: seconds since the epoch; infinite: not known. `code`,
    `text`: why not at once. `never`: not before something changes there."""

    start_s: float
    code: str = ""
    text: str = ""
    never: bool = False


def question(sought: Sought) -> str:
    """Return the question about a gang; empty if it is too long to be asked."""
    pods = [
        AskedPods(
            count=role.count,
            requests={name: exact(name, amount) for name, amount in sorted(role.shape.requests) if name != "pods"},
            selector={key: value for key, value in role.shape.selector if key != CLUSTER},
            tolerations=[
                {name: value for name in ("key", "operator", "value", "effect") if (value := getattr(each, name))}
                for each in role.shape.tolerations
            ],
        )
        for role in sought.roles
        if role.count
    ]
    options = {name: sought.options[name] for name in _OPTIONS if sought.options.get(name)}
    asked = StartQuestion(options=options, pods=pods, priority=sought.priority, limit_s=sought.limit_s or 0.0)
    text = msgspec.json.encode(asked, order="sorted").decode()
    return text if len(text) <= _LONGEST else ""


def path_of(namespace: str) -> str:
    """Return the path of questions about gangs of the namespace."""
    return f"{API}/namespaces/{namespace}/jobs/-/start"


def read_question(text: str) -> StartQuestion:
    """Return the question. Raises ValueError."""
    asked = msgspec.json.decode(text[: _LONGEST + 1], type=StartQuestion)
    if not asked.pods or any(each.count < 1 for each in asked.pods):
        raise ValueError("it asks for no pods")
    if sum(each.count for each in asked.pods) > MOST_PODS:
        raise ValueError(f"it asks for more than {MOST_PODS} pods")
    return asked


def answer_of(in_s: float, code: str, text: str) -> dict[str, Any]:
    """Return the fields of an answer. `in_s`: seconds from now; infinite: not known."""
    said: dict[str, Any] = {"startsIn": round(in_s, 3)} if in_s < inf else {}
    return said | ({"reason": {"code": code, "message": text}} if code else {})


def read_answer(answer: Any, now_s: float) -> StartOutlook | None:
    """Return the outlook that a worker's answer gives; None if it gives none. Whatever is in the answer is bounded."""
    if not isinstance(answer, Mapping) or answer.get("kind") != "JobStart":
        return None
    in_s, reason = answer.get("startsIn"), answer.get("reason")
    said = reason if isinstance(reason, Mapping) else {}
    code = str(said.get("code") or "")[:64]
    message = "".join(c if c.isprintable() else " " for c in str(said.get("message") or "")[:_LONGEST_TEXT])
    off_s = float(in_s) if isinstance(in_s, int | float) and isfinite(in_s) and in_s >= 0.0 else inf
    if off_s == inf and not code:
        return None
    when = f"expected to start in {_span(off_s)}" if off_s < inf else "start not known"
    return StartOutlook(
        start_s=now_s + off_s,
        code=code,
        text=f"{when}{f' ({code}: {message})' if code else ''}",
        never=off_s == inf and code in {str(each) for each in _NEVER},
    )


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
