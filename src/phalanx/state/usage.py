"""The past usage of each user in each queue, for fair shares. It is measured in billed units times seconds. Usage
decays: after one half-life, only half of it counts.

For each user in each queue, the module stores the usage at a certain time, and the amounts that the user has held since
then. A formula computes the usage at any later time from these values, so there is no periodic update. With the rate r
(billed units) and the half-life H, the usage after t seconds is

    usage(t) = usage(0) * 2^(-t/H) + r * H/ln 2 * (1 - 2^(-t/H))        (H = 0: nothing decays, usage(0) + r * t)

This is the limit of Slurm's decay for very short periods dt (multifactor priority: usage *= 2^(-dt/H), plus the new
usage). The stored usage is only updated when the amounts of the user change. Amounts are stored as integers per
resource, and the rate is computed from them again at each change. So rounding errors cannot add up, and the rate is
exactly 0 when the user holds nothing.

A queue may set its own prices and its own half-life. All other queues use the prices and the half-life of the policy.

All times come from the clock of the cluster state (`Cluster.now_s`), which never goes back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.model.queue import Weights

NOTHING = 1e-6  # a usage below this value (billed units times seconds) is treated as 0
IDLE = 64
LN_2 = math.log(2)
MOST = 1e30  # a reported usage above this value is treated as a mistake, because no cluster can reach it


class Price(NamedTuple):
    """The prices of one unit of each resource per second (`billing`), and the half-life of past usage (seconds)."""

    billing: Mapping[str, float] = {}
    half_life_s: float = 0.0

    @classmethod
    def of(cls, billing: Weights, half_life_s: float) -> Price:
        """Return the price. A price or a half-life that is negative, infinite or not a number counts as 0."""
        sound = {name: price for name, price in billing if 0 < price < math.inf}
        return cls(sound, half_life_s if 0 < half_life_s < math.inf else 0.0)

    def rate(self, held: Mapping[str, Amount]) -> float:
        """Return the price of the held amounts per second, in billed units."""
        return math.fsum([self.billing[resource] * held[resource] for resource in held if resource in self.billing])

    def accrued(self, rate: float, after_s: float) -> float:
        """Return the usage that a constant rate adds in `after_s` seconds, including the decay during this time."""
        if not self.half_life_s:
            return rate * after_s
        lifetime_s = self.half_life_s / LN_2
        return rate * lifetime_s * -math.expm1(-after_s / lifetime_s)


class AssociationUsage:
    """The usage of one association: of a user in a queue or, if the queue uses accounts, of an account in a queue
    (`Job.association`).

    `usage`: the usage at `at_s` (seconds since the epoch), in billed units times seconds.
    `held`, `rate`: the amounts that the user has held since `at_s`, and their price per second in billed units.
    `price`: the prices and the half-life of the queue. `told_s`: the time up to which the world has reported the usage.
    `jobs`: the number of live jobs of the user in the queue."""

    __slots__ = ("at_s", "held", "jobs", "price", "rate", "told_s", "usage")

    def __init__(self, price: Price) -> None:
        self.price = price
        self.usage = self.at_s = self.told_s = self.rate = 0.0
        self.held: dict[str, Amount] = {}
        self.jobs = 0

    def copy(self) -> AssociationUsage:
        other = AssociationUsage(self.price)
        other.usage, other.at_s, other.told_s, other.rate = self.usage, self.at_s, self.told_s, self.rate
        other.held, other.jobs = dict(self.held), self.jobs
        return other


class DecayedUsage:
    """The decayed usage of all associations.

    `associations`: queue -> user -> usage. It contains the users with a live job in the queue, and users without live
        jobs as long as they still have usage.
    `default`: the price in all queues that are not in `prices`."""

    def __init__(self) -> None:
        self.default = Price()
        self.prices: dict[str, Price] = {}
        self.associations: dict[str, dict[str, AssociationUsage]] = {}
        self._idle = 0  # the number of associations that lost their last job since unused ones were last removed

    def enter(self, queue: str, user: str) -> None:
        """Record that the user has one more live job in the queue."""
        self.meter(queue, user).jobs += 1

    def leave(self, queue: str, user: str, now_s: float) -> None:
        """Record that the user has one live job less in the queue. From time to time, also remove associations without
        jobs and usage, so that at most about half of all associations are unused."""
        meter = self.meter(queue, user)
        meter.jobs -= 1
        self._idle += not meter.jobs
        if self._idle > IDLE and 2 * self._idle > sum(map(len, self.associations.values())):
            self._idle = 0
            for name, meters in list(self.associations.items()):
                self.associations[name] = {user: each for user, each in meters.items() if self._counts(each, now_s)}
                if not self.associations[name]:
                    del self.associations[name]

    def _counts(self, meter: AssociationUsage, now_s: float) -> bool:
        return bool(meter.jobs or meter.held) or self.at(meter, now_s) >= NOTHING

    def meter(self, queue: str, user: str) -> AssociationUsage:
        """Return the usage of the user in the queue. If there is none, create one."""
        meters = self.associations.get(queue)
        if meters is None:
            meters = self.associations[queue] = {}
        meter = meters.get(user)
        if meter is None:
            meter = meters[user] = AssociationUsage(self.prices.get(queue, self.default))
        return meter

    def price(self, billing: Weights, half_life_s: float, now_s: float) -> None:
        """Set the price that is used from now on in all queues without a price of their own."""
        price = Price.of(billing, half_life_s)
        if price == self.default:
            return
        self.default = price
        for queue in self.associations.keys() - self.prices.keys():
            self._reprice(queue, price, now_s)

    def price_queue(self, queue: str, price: Price | None, now_s: float) -> None:
        """Set the queue's own price, which is used from now on. If `price` is None, the queue uses the price of the
        policy again."""
        if price == self.prices.get(queue):
            return
        if price is None:
            del self.prices[queue]
        else:
            self.prices[queue] = price
        self._reprice(queue, self.default if price is None else price, now_s)

    def _reprice(self, queue: str, price: Price, now_s: float) -> None:
        for meter in self.associations.get(queue, {}).values():
            self.bring_forward(meter, now_s)
            meter.price, meter.rate = price, price.rate(meter.held)

    def hold(self, queue: str, user: str, asks: Iterable[tuple[str, Amount]], pods: int, now_s: float) -> None:
        """Add the requests of `pods` pods to the amounts that the user holds; a negative number removes them."""
        meter = self.meter(queue, user)
        self.bring_forward(meter, now_s)
        held = meter.held
        for resource, amount in asks:
            now = held.get(resource, 0) + amount * pods
            if now:
                held[resource] = now
            else:
                held.pop(resource, None)
        meter.rate = meter.price.rate(held) if meter.price.billing and held else 0.0

    def tell(self, queue: str, user: str, usage: float, at_s: float, now_s: float) -> None:
        """Replace the usage by a reported value, which is the usage at `at_s`. The amounts that the user holds now are
        treated as held since `at_s`. A negative or impossibly large usage is replaced by 0, and a time `at_s` in the
        future by `now_s`."""
        meter = self.meter(queue, user)
        meter.usage = usage if 0 <= usage <= MOST else 0.0
        meter.at_s = meter.told_s = min(at_s, now_s) if math.isfinite(at_s) else now_s
        self.bring_forward(meter, now_s)

    def backdate(self, queue: str, user: str, held: Mapping[str, Amount], since_s: float, now_s: float) -> None:
        """Add the usage of the amounts `held` from `since_s` until now. If the world has reported a usage, only the
        time after this report (`told_s`) counts."""
        meter = self.meter(queue, user)
        meter.usage += meter.price.accrued(meter.price.rate(held), max(0.0, now_s - max(since_s, meter.told_s)))

    def enter_start(self, queue: str, user: str, held: Mapping[str, Amount], entry_s: float, now_s: float) -> None:
        """Add the usage that a job with the amounts `held`, which is starting now, would have after running
        for `entry_s` seconds."""
        meter = self.meter(queue, user)
        self.bring_forward(meter, now_s)
        meter.usage += meter.price.accrued(meter.price.rate(held), entry_s)

    def of(self, queue: str, user: str, now_s: float) -> float:
        """Return the usage of the user in the queue, decayed to `now_s`."""
        meter = self.associations.get(queue, {}).get(user)
        return 0.0 if meter is None else self.at(meter, now_s)

    def at(self, meter: AssociationUsage, now_s: float) -> float:
        """Return the usage of an association, decayed to `now_s`."""
        if not meter.rate and not meter.usage:
            return 0.0
        after_s = now_s - meter.at_s if now_s > meter.at_s else 0.0
        half_life_s = meter.price.half_life_s
        kept = meter.usage * 2.0 ** (-after_s / half_life_s) if half_life_s else meter.usage
        return kept + meter.price.accrued(meter.rate, after_s)

    def bring_forward(self, meter: AssociationUsage, now_s: float) -> None:
        """Replace the stored usage by its value at `now_s`, and set `at_s` to `now_s`."""
        if now_s > meter.at_s:
            if meter.usage or meter.rate:
                meter.usage = self.at(meter, now_s)
            meter.at_s = now_s

    def amounts(self, now_s: float) -> Iterator[tuple[str, str, float]]:
        """Yield (queue, user, usage). The usage is in billed units times seconds, decayed to `now_s`."""
        return ((queue, user, self.at(association, now_s)) for queue, user, association in self)

    def is_held(self) -> bool:
        """Return whether any user holds an amount now."""
        return any(association.held for _, _, association in self)

    def __iter__(self) -> Iterator[tuple[str, str, AssociationUsage]]:
        for queue, meters in self.associations.items():
            for user, meter in meters.items():
                yield queue, user, meter

    def copy(self) -> DecayedUsage:
        other = DecayedUsage()
        other.default, other.prices = self.default, dict(self.prices)
        other._idle = self._idle
        other.associations = {
            queue: {user: meter.copy() for user, meter in meters.items()} for queue, meters in self.associations.items()
        }
        return other
