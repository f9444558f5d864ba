"""The price and the data of a cluster, as its MultiKueueCluster has them.

    metadata:
      labels: {data.phalanx.dev/imagenet: ""}
      annotations: {phalanx.dev/cluster-price: "cpu=0.04,memory=0.005,nvidia.com/gpu=2.5"}

A price is that of one CPU, GiB or device for an hour, in any currency. A cluster without prices costs nothing. Values
that cannot be read are errors in `ClusterOffer.wrong`; the rest of the offer holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from phalanx.model.job import Role
from phalanx.model.pod import CPU, MEMORY

PRICE: Final = "phalanx.dev/cluster-price"
DATA_PREFIX: Final = "data.phalanx.dev/"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_UNITS: Final = {CPU: 1000, MEMORY: 2**30, "ephemeral-storage": 2**30}  # amounts of the model in one priced unit
_MOST_NAMES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOffer:
    """`prices`: resource -> the price of a unit for an hour. `data`: the names of the data that the cluster has.
    `wrong`: what cannot be read, and how to mend it; empty if all can."""

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
    """Return the offer of a MultiKueueCluster."""
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
                f"its annotation {PRICE} has {entry[:60]!r}, which is no RESOURCE=PRICE and is ignored: write, for "
                "example, cpu=0.04,memory=0.005,nvidia.com/gpu=2.5"
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
    """Return the names in a job's list of data. Raises ValueError."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if (bad := next((name for name in names if not _NAME.fullmatch(name)), None)) is not None:
        raise ValueError(f"{bad[:60]!r} is no name of data: letters, digits, '-', '_' and '.', at most 63")
    if len(names) > _MOST_NAMES:
        raise ValueError(f"it names {len(names)} data; the most is {_MOST_NAMES}")
    return names
