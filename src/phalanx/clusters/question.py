"""Ask the scheduler of a worker (a cluster to which jobs may be sent) when it would start a gang, and read the answer.
The module defines the formats of the question and of the answer.

    GET /apis/visibility.phalanx.dev/v1/namespaces/NAMESPACE/jobs/-/start?job=QUESTION

The question is a JSON document with the gang's options for queueing, its priority, its time limit and its pods. A
question contains no names, so equal gangs have the same question. The answer gives the start in seconds from now, so
that the clocks of the two clusters need not agree.

The module also reads the prices and the data of a cluster from the labels and annotations of its MultiKueueCluster:

    metadata:
      labels: {data.phalanx.dev/imagenet: ""}
      annotations: {phalanx.dev/cluster-price: "cpu=0.04,memory=0.005,nvidia.com/gpu=2.5"}

A price is the price of one CPU, one GiB or one device for an hour, in any currency. A cluster without prices costs
nothing. A value that cannot be read is reported in `ClusterOffer.wrong`; the other values are used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Final, NamedTuple

import msgspec

from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.kube.gang.spec.elsewhere import Sought
from phalanx.kube.read import labels
from phalanx.kube.status.queue_status import exact
from phalanx.model.job import Role
from phalanx.model.pod import CPU, MEMORY
from phalanx.model.reason import NEVER, ReasonCode

API: Final = "/apis/visibility.phalanx.dev/v1"
_LONGEST, _LONGEST_TEXT = 3000, 300  # maximum numbers of characters: of a question (part of a URL); of a reason
_OPTIONS: Final = (
    *(labels.QUEUE, "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class", labels.GROUP, labels.QOS),
    *(labels.ESTIMATE, labels.PREEMPTIBLE, labels.RESERVATION, labels.DEADLINE),
)
MOST_PODS = 100_000
_NEVER: Final = NEVER | {ReasonCode.QUEUE_UNKNOWN, ReasonCode.QUEUE_CLOSED, ReasonCode.QUEUE_MISCONFIGURED}


class AskedPods(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number of equal pods. `requests`: resource -> quantity."""

    count: int
    requests: dict[str, str]
    selector: dict[str, str] = {}
    tolerations: list[dict[str, str]] = []


class StartQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question about the start of a gang: the facts about the gang that affect its start, without names. `limit_s`:
    the gang's time limit in seconds; 0 if the gang has no time limit."""

    options: dict[str, str]
    pods: list[AskedPods]
    priority: int = 0
    limit_s: float = 0.0


class StartOutlook(NamedTuple):
    """When a cluster expects to start the gang. `start_s`: the start in seconds since the epoch; infinite if it is not
    known. `code`, `text`: the reason code and the text that explain why the gang does not start immediately. `never`:
    True if the gang can start only after a change in that cluster."""

    start_s: float
    code: str = ""
    text: str = ""
    never: bool = False


def question(sought: Sought) -> str:
    """Return the question about a gang; "" if it is too long for a URL."""
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
    """Return the URL path for questions about gangs of the namespace."""
    return f"{API}/namespaces/{namespace}/jobs/-/start"


def read_question(text: str) -> StartQuestion:
    """Parse the text of a question. Raises ValueError."""
    asked = msgspec.json.decode(text[: _LONGEST + 1], type=StartQuestion)
    if not asked.pods or any(each.count < 1 for each in asked.pods):
        raise ValueError("it requests no pods")
    if sum(each.count for each in asked.pods) > MOST_PODS:
        raise ValueError(f"it requests more than {MOST_PODS} pods")
    return asked


def answer_of(in_s: float, code: str, text: str) -> dict[str, object]:
    """Return the fields of an answer. `in_s`: the seconds until the start; infinite if it is not known."""
    said: dict[str, Any] = {"startsIn": round(in_s, 3)} if in_s < inf else {}
    return said | ({"reason": {"code": code, "message": text}} if code else {})


def read_answer(answer: object, now_s: float) -> StartOutlook | None:
    """Return the outlook in a worker's answer; None if the answer has neither a start nor a reason. Long texts in the
    answer are cut."""
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


PRICE: Final = "phalanx.dev/cluster-price"
DATA_PREFIX: Final = "data.phalanx.dev/"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_UNITS: Final = {CPU: 1000, MEMORY: 2**30, "ephemeral-storage": 2**30}  # resource -> the amount that its price is for
_MOST_NAMES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOffer:
    """The prices and the data that a cluster offers. `prices`: resource -> the price of one unit (one CPU, one GiB or
    one device) for an hour. `data`: the names of the data sets that the cluster has. `wrong`: the values that cannot be
    read, and how to correct them; empty if all values can be read."""

    prices: Mapping[str, float] = field(default_factory=dict)
    data: frozenset[str] = frozenset()
    wrong: str = ""

    def price(self, roles: Iterable[Role]) -> float:
        """Return the price of all pods of these roles for an hour."""
        return sum(
            role.count * self.prices.get(resource, 0.0) * amount / _UNITS.get(resource, 1)
            for role in roles
            for resource, amount in role.shape.requests
        )


def offer_of(cluster: Mapping[str, Any]) -> ClusterOffer:
    """Return the prices and the data that a MultiKueueCluster offers."""
    meta = cluster["metadata"]
    said = (meta.get("annotations") or {}).get(PRICE) or ""
    held = (meta.get("labels") or {}).items()
    data = (key.removeprefix(DATA_PREFIX) for key, value in held if key.startswith(DATA_PREFIX) and value != "false")
    prices, wrong = dict[str, float](), ""
    for entry in filter(None, map(str.strip, said.split(","))):
        resource, equals, text = map(str.strip, entry.partition("="))
        price = _price(text) if resource and equals else None
        if price is None:
            wrong = wrong or (
                f"its annotation {PRICE} has {entry[:60]!r}, which does not have the form RESOURCE=PRICE and is "
                f"ignored: write, for example, cpu=0.04,memory=0.005,nvidia.com/gpu=2.5"
            )
        else:
            prices[resource] = price
    return ClusterOffer(prices=prices, data=frozenset(data), wrong=wrong)


def _price(text: str) -> float | None:
    try:
        price = float(text)
    except ValueError:
        return None
    return price if isfinite(price) and price >= 0.0 else None


def data_names(text: str) -> tuple[str, ...]:
    """Return the names of data sets in the comma-separated list of a job. Raises ValueError."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if (bad := next((name for name in names if not _NAME.fullmatch(name)), None)) is not None:
        raise ValueError(f"{bad[:60]!r} is not a valid name of data: use letters, digits, '-', '_' and '.', at most 63")
    if len(names) > _MOST_NAMES:
        raise ValueError(f"it has {len(names)} names of data; at most {_MOST_NAMES} are allowed")
    return names
