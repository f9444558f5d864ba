"""Divide the handles and objects of RDMA cards among containers, by the rdma controller of cgroups.

A card has a limited number of handles (opened devices) and objects (queue pairs, memory regions and others), and a
single program could take all of them. The node offers the configured numbers as the extended resources
`rdma/hca_handle` and `rdma/hca_object`. Each container is limited to its request, which is zero by default. The kernel
has a separate counter for each card. So a container may use the requested number on each card of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from phalanx.errors import PhalanxError

COUNTED = ("hca_handle", "hca_object")  # the names in rdma.max
_CARDS = Path("/sys/class/infiniband")


def parse_rdma(text: str) -> dict[str, int]:
    """Return the amounts in a string such as `hca_handle=64,hca_object=8192`. Raises PhalanxError."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.partition("=")
        if name not in COUNTED or name in found or not count.isdigit() or int(count) == 0:
            raise PhalanxError(
                f"--local-rdma {text!r}: {part!r} is not valid. Nothing was started. Write "
                "hca_handle=N,hca_object=M, or one of them, with N and M above 0."
            )
        found[name] = int(count)
    return found


def rdma_resources(offered: Mapping[str, int]) -> dict[str, str]:
    """Return the extended resources of the node."""
    return {f"rdma/{name}": str(count) for name, count in offered.items()}


def rdma_limits(
    offered: Mapping[str, int], cards: tuple[str, ...], asked: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Return the limits of a container: name of a card -> its limits. `asked`: the amounts of resources that the
    container requests."""
    most = {name: asked.get(f"rdma/{name}", 0) for name in offered}
    return dict.fromkeys(cards, most) if most else {}


def rdma_cards(folder: Path = _CARDS) -> tuple[str, ...]:
    """Return the names of this machine's RDMA cards."""
    return tuple(sorted(place.name for place in folder.iterdir())) if folder.is_dir() else ()


def require_rdma(cards: tuple[str, ...], *, enforced: bool) -> None:
    """Raise PhalanxError if handles and objects cannot be limited on this machine. `enforced`: True if the rdma
    controller of cgroups exists and this process may write it."""
    lacking = "it has no RDMA card (/sys/class/infiniband is empty)" if not cards else ""
    if cards and not enforced:
        lacking = (
            "its kernel has no rdma controller of cgroups (CONFIG_CGROUP_RDMA), or this process may not write it; run "
            "as root, with the controller mounted (version 1) or delegated (version 2)"
        )
    if lacking:
        raise PhalanxError(f"--local-rdma cannot be enforced on this machine: {lacking}. Nothing was started.")
