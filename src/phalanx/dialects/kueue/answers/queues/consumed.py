"""What LocalQueues have consumed, where past usage orders the jobs of their ClusterQueue: `admissionFairSharingStatus`.

Every sampling interval, what was consumed fades by the half-life, and what is in use then counts as in use for all of
the interval:

    consumed = consumed * 2^(-elapsed / halfLife) + use * (1 - 2^(-interval / halfLife))

The usage of a LocalQueue is the weighted sum of that over its weight. It stands on the object, so whoever schedules
next goes on with it. Who is next is decided by what is known by the second (`core.order.account_usage`), which counts a
start at once, as Kueue's entry penalty does; this is what people and tools see of it.

Sources: pkg/util/admissionfairsharing and pkg/controller/core/localqueue_controller.go of v0.20.0-devel.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any

from phalanx.client.moment import MomentError, read_moment
from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kueue.tree.configuration import AdmissionFairSharing
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions, LocalQueue
from phalanx.model.pod import CPU

_SUFFIXES = ((0, ""), (3, "m"), (6, "u"), (9, "n"))  # of a quantity: digits behind the point


def sampled(terms: AdmissionFairSharing, old: Mapping[str, Any], in_use: Mapping[str, int], now: str) -> Object:
    """Return the admissionFairSharingStatus of a LocalQueue. `old`: its status; `in_use`: by resource (cpu in
    millicores, else units); `now`: as a metav1.Time."""
    before = (old.get("fairSharing") or {}).get("admissionFairSharingStatus") or {}
    try:
        elapsed_s = read_moment(now) - read_moment(before.get("lastUpdate"))
    except MomentError:  # it has none yet
        return {"consumedResources": {}, "lastUpdate": now}
    if elapsed_s < terms.sampling_s:
        return dict(before)
    kept, added = 0.5 ** (elapsed_s / terms.half_life_s), 1 - 0.5 ** (terms.sampling_s / terms.half_life_s)
    found = {name: kept * each for name, each in _read(before).items()}
    for name, amount in in_use.items():
        found[name] = found.get(name, 0.0) + added * (amount / 1000 if name == CPU else amount)
    return {"consumedResources": {name: written(each) for name, each in sorted(found.items())}, "lastUpdate": now}


def again_s(terms: AdmissionFairSharing, said: Mapping[str, Any]) -> float:
    """Return when the next sample is due (seconds since the epoch)."""
    return read_moment(said["lastUpdate"]) + terms.sampling_s


def usage(defined: KueueDefinitions, local: LocalQueue, status: Mapping[str, Any]) -> float | None:
    """Return the usage of a LocalQueue with that status; None: its ClusterQueue is not ordered by usage."""
    terms = defined.usage_of(local.cluster_queue)
    if terms is None:
        return None
    consumed = _read((status.get("fairSharing") or {}).get("admissionFairSharingStatus") or {})
    used = sum(terms.weight(name) * consumed[name] for name in sorted(consumed))
    return used / local.weight if local.weight > 0 else inf


def _read(said: Mapping[str, Any]) -> dict[str, float]:
    """Return what was consumed, as far as it can be read: anybody may write a status."""
    found: dict[str, float] = {}
    for name, text in (said.get("consumedResources") or {}).items():
        with suppress(QuantityError):
            found[name] = max(0.0, float(parse(text)))
    return found


def written(amount: float) -> str:
    """Return the amount as a quantity, rounded down to billionths, so that it fades to nothing."""
    billionths = int(amount * 10**9)
    digits, suffix = next(each for each in _SUFFIXES if billionths % 10 ** (9 - each[0]) == 0)
    return f"{billionths // 10 ** (9 - digits)}{suffix}"
