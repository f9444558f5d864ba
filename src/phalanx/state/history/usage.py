"""The past usage of users, decayed: billed units times seconds, of which half counts after a half-life.

Usage is kept in closed form, so that time costs nothing: of each user in each queue the usage at one moment, and what
the user has held since. With the rate r (billed units) and the half-life H, after t seconds it is

    usage(t) = usage(0) * 2^(-t/H) + r * H/ln 2 * (1 - 2^(-t/H))        (H = 0: nothing decays, usage(0) + r * t)

which is the solution of Slurm's decay (multifactor priority: usage *= 2^(-dt/H), plus what ran) for dt towards 0. A
usage is brought forward only when what its user holds changes. Holdings are kept as whole amounts per resource and
priced anew at each change: rates cannot drift, and are exactly zero when nothing is held.

Time is that of the state (`Cluster.now_s`), which never goes back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from phalanx.model.pod import Amount
from phalanx.model.queue import Weights

NOTHING = 1e-6  # billed units times seconds
IDLE = 64
LN_2 = math.log(2)
MOST = 1e30  # beyond it a usage told is a mistake: no cluster runs that long


class AssociationUsage:
    """The usage of one association: a user in a queue.

    `usage`: billed units times seconds at `at_s` (seconds since the epoch).
    `held`, `rate`: what the user has held since then, and its price in billed units.
    `told_s`: up to then the usage is as the world told it.
    `jobs`: live jobs of the user in the queue."""

    __slots__ = ("at_s", "held", "jobs", "rate", "told_s", "usage")

    def __init__(self) -> None:
        self.usage = self.at_s = self.told_s = self.rate = 0.0
        self.held: dict[str, Amount] = {}
        self.jobs = 0

    def copy(self) -> AssociationUsage:
        other = AssociationUsage()
        other.usage, other.at_s, other.told_s, other.rate = self.usage, self.at_s, self.told_s, self.rate
        other.held, other.jobs = dict(self.held), self.jobs
        return other


class DecayedUsage:
    """The decayed usage of all associations.

    `associations`: queue -> user -> usage. A user with a live job in a queue is in it, and one that had as long as any
        usage is left.
    `billing`: resource -> what an amount of it costs a second."""

    def __init__(self) -> None:
        self.billing: Mapping[str, float] = {}
        self.half_life_s = 0.0
        self.associations: dict[str, dict[str, AssociationUsage]] = {}
        self._idle = 0  # meters without jobs since it was last looked which of them can be forgotten

    def enter(self, queue: str, user: str) -> None:
        """Note that a job of the user is in the queue from now on."""
        self.meter(queue, user).jobs += 1

    def leave(self, queue: str, user: str, now_s: float) -> None:
        """Note that a job of the user has left the queue. Associations without jobs and usage are forgotten at the
        latest when they may be half of all."""
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
        """Return the usage of the user in the queue, made if there is none yet."""
        meters = self.associations.get(queue)
        if meters is None:
            meters = self.associations[queue] = {}
        meter = meters.get(user)
        if meter is None:
            meter = meters[user] = AssociationUsage()
        return meter

    def price(self, billing: Weights, half_life_s: float, now_s: float) -> None:
        """Set what an amount of a resource costs a second, and the half-life, from now on. Prices and half-lives below
        zero, or no numbers, count as none."""
        sound = {name: price for name, price in billing if 0 < price < math.inf}
        lasting = half_life_s if 0 < half_life_s < math.inf else 0.0
        if (sound, lasting) == (self.billing, self.half_life_s):
            return
        for _, _, meter in self:
            self.bring_forward(meter, now_s)
        self.billing, self.half_life_s = sound, lasting
        for _, _, meter in self:
            meter.rate = self.rate(meter.held)

    def hold(self, queue: str, user: str, asks: Iterable[tuple[str, Amount]], pods: int, now_s: float) -> None:
        """Note that the user holds the requests of so many pods more (fewer, if negative) from now on."""
        meter = self.meter(queue, user)
        self.bring_forward(meter, now_s)
        held = meter.held
        for resource, amount in asks:
            now = held.get(resource, 0) + amount * pods
            if now:
                held[resource] = now
            else:
                held.pop(resource, None)
        meter.rate = self.rate(held) if self.billing and held else 0.0

    def tell(self, queue: str, user: str, usage: float, at_s: float, now_s: float) -> None:
        """Replace the usage by what it was at `at_s`; what is held now counts as held since then. Absurd usages count
        as none, and a future `at_s` as now."""
        meter = self.meter(queue, user)
        meter.usage = usage if 0 <= usage <= MOST else 0.0
        meter.at_s = meter.told_s = min(at_s, now_s) if math.isfinite(at_s) else now_s
        self.bring_forward(meter, now_s)

    def backdate(self, queue: str, user: str, held: Mapping[str, Amount], since_s: float, now_s: float) -> None:
        """Add what `held` has cost since `since_s`; usage that was told includes what came before it."""
        meter = self.meter(queue, user)
        meter.usage += self.accrued(self.rate(held), max(0.0, now_s - max(since_s, meter.told_s)))

    def of(self, queue: str, user: str, now_s: float) -> float:
        """Return the usage of the user in the queue, decayed to `now_s`."""
        meter = self.associations.get(queue, {}).get(user)
        return 0.0 if meter is None else self.at(meter, now_s)

    def at(self, meter: AssociationUsage, now_s: float) -> float:
        """Return the usage of an association, decayed to `now_s`."""
        if not meter.rate and not meter.usage:
            return 0.0
        after_s = now_s - meter.at_s if now_s > meter.at_s else 0.0
        kept = meter.usage * 2.0 ** (-after_s / self.half_life_s) if self.half_life_s else meter.usage
        return kept + self.accrued(meter.rate, after_s)

    def accrued(self, rate: float, after_s: float) -> float:
        """Return what a constant rate adds to a usage in so many seconds."""
        if not self.half_life_s:
            return rate * after_s
        lifetime_s = self.half_life_s / LN_2
        return rate * lifetime_s * -math.expm1(-after_s / lifetime_s)

    def rate(self, held: Mapping[str, Amount]) -> float:
        """Return the price of what is held, in billed units."""
        billing = self.billing
        return math.fsum([billing[resource] * held[resource] for resource in held if resource in billing])

    def bring_forward(self, meter: AssociationUsage, now_s: float) -> None:
        """State the usage as of `now_s`."""
        if now_s > meter.at_s:
            if meter.usage or meter.rate:
                meter.usage = self.at(meter, now_s)
            meter.at_s = now_s

    def amounts(self, now_s: float) -> Iterator[tuple[str, str, float]]:
        """Yield (queue, user, billed units times seconds, decayed to `now_s`)."""
        return ((queue, user, self.at(association, now_s)) for queue, user, association in self)

    def is_held(self) -> bool:
        """Return whether any user holds anything now."""
        return any(association.held for _, _, association in self)

    def __iter__(self) -> Iterator[tuple[str, str, AssociationUsage]]:
        for queue, meters in self.associations.items():
            for user, meter in meters.items():
                yield queue, user, meter

    def copy(self) -> DecayedUsage:
        other = DecayedUsage()
        other.billing, other.half_life_s = self.billing, self.half_life_s
        other._idle = self._idle
        other.associations = {
            queue: {user: meter.copy() for user, meter in meters.items()} for queue, meters in self.associations.items()
        }
        return other
