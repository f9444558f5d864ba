"""Compute the past usage of LocalQueues for the field `admissionFairSharingStatus`. A LocalQueue has this field if its
ClusterQueue orders jobs by the past usage of its LocalQueues.

Once in each sampling interval, the consumed amounts are reduced: they halve in each half-life. Then the amounts that
are in use at that time are added, as if they had been in use for the whole interval:


    consumed = consumed * 2^(-elapsed / halfLife) + use * (1 - 2^(-interval / halfLife))


The usage of a LocalQueue is the weighted sum of the consumed amounts, divided by the queue's weight. It is stored in
the LocalQueue's status, so a scheduler process that becomes the leader later continues from this value. This status is
only for users and tools. The scheduler's decisions are based on another record of the usage, which is exact to the
second and includes a job as soon as the job starts, as Kueue's entry penalty does (`core.order.account_usage`).

Sources: pkg/util/admissionfairsharing and pkg/controller/core/localqueue_controller.go of v0.20.0-devel."""

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

_SUFFIXES = ((0, ""), (3, "m"), (6, "u"), (9, "n"))  # (decimal places, suffix of a quantity)


def sampled(terms: AdmissionFairSharing, old: Mapping[str, Any], in_use: Mapping[str, int], now: str) -> Object:
    """Return the new admissionFairSharingStatus of a LocalQueue. `old`: the status before. `in_use`: the amount of each
    resource that is in use now (cpu in millicores, others in whole units). `now`: the present time as a metav1.Time."""
    before = (old.get("fairSharing") or {}).get("admissionFairSharingStatus") or {}
    try:
        elapsed_s = read_moment(now) - read_moment(before.get("lastUpdate"))
    except MomentError:  # the status has no consumption yet
        return {"consumedResources": {}, "lastUpdate": now}
    if elapsed_s < terms.sampling_s:
        return dict(before)
    kept, added = 0.5 ** (elapsed_s / terms.half_life_s), 1 - 0.5 ** (terms.sampling_s / terms.half_life_s)
    found = {name: kept * each for name, each in _read(before).items()}
    for name, amount in in_use.items():
        found[name] = found.get(name, 0.0) + added * (amount / 1000 if name == CPU else amount)
    return {"consumedResources": {name: written(each) for name, each in sorted(found.items())}, "lastUpdate": now}


def again_s(terms: AdmissionFairSharing, said: Mapping[str, object]) -> float:
    """Return the time at which the next sample is due (seconds since the epoch)."""
    return read_moment(said["lastUpdate"]) + terms.sampling_s


def usage(defined: KueueDefinitions, local: LocalQueue, status: Mapping[str, Any]) -> float | None:
    """Return the past usage that the status of a LocalQueue states; None if its ClusterQueue does not order jobs by
    usage."""
    terms = defined.usage_of(local.cluster_queue)
    if terms is None:
        return None
    consumed = _read((status.get("fairSharing") or {}).get("admissionFairSharingStatus") or {})
    used = sum(terms.weight(name) * consumed[name] for name in sorted(consumed))
    return used / local.weight if local.weight > 0 else inf


def _read(said: Mapping[str, Any]) -> dict[str, float]:
    """Return the consumed amounts in the status. Amounts that cannot be read are left out, because other programs may
    write the status too."""
    found: dict[str, float] = {}
    for name, text in (said.get("consumedResources") or {}).items():
        with suppress(QuantityError):
            found[name] = max(0.0, float(parse(text)))
    return found


def written(amount: float) -> str:
    """Return the amount as a quantity. It is rounded down to billionths, so that an amount that decays reaches 0."""
    billionths = int(amount * 10**9)
    digits, suffix = next(each for each in _SUFFIXES if billionths % 10 ** (9 - each[0]) == 0)
    return f"{billionths // 10 ** (9 - digits)}{suffix}"
