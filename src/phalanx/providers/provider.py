"""What a provider does: two calls, whatever is behind them.

`scale` asks for nodes and gives nodes back. It may be called again with the same names after a lost answer, and then
changes nothing. `status` names the requested nodes that have not arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from phalanx.errors import PhalanxError


class ProviderError(PhalanxError):
    """A call that failed and may be repeated. The text says why."""


class Requested(NamedTuple):
    """A requested node that has not arrived. `since_s`: the time of the request (seconds since the epoch)."""

    name: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a group. `requested`: the nodes that have not arrived. `failed`: the nodes that will not arrive,
    with the provider's reasons. `removing`: the nodes whose removal has begun."""

    requested: tuple[Requested, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    removing: tuple[str, ...] = ()


class Provider(Protocol):
    """A provider of one or several groups."""

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        """Request the nodes `add`, and remove (or cancel) the nodes `remove`. Return the nodes that are not added, or
        not removed, with reasons. Raises ProviderError."""

    async def status(self, group: str) -> Status:
        """Return the status of the group. Raises ProviderError."""
