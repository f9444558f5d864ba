"""Prevent users of a shared machine from connecting to each other's programs, by kernel rules (nft(8)).
docs/decisions/0050 has the reasons.

All pods share the machine's network, so every program can reach every listening address. But the kernel knows the owner
of each socket. A connection over the loopback device gets a mark for the user of the client. The answer of a *fenced*
user's listener (the second packet of TCP, which the listener's user sends) is dropped unless the mark is that user's.
So only processes of the same user can connect to the listener, whatever address it has.

Only a pod's user may answer at the address of the pod. Only root, which forwards connections, may answer at the address
of a service. A program of another user that listens on all addresses, or that was first to listen at the address of the
pod or service, gets no connection at this address.

Connections of root count as another user's, because programs of root forward users' connections (services, `kubectl
port-forward`, probes). Connections of root to the address of a pod count as the pod's user's, because the API server
has authorized them.

A user is fenced from the start of the user's first pod until the end of the last. Root is never fenced, because the API
server runs as root. The rules stay in the kernel when the node agent ends, as pods do. If they are deleted in the
meantime (Debian's nftables.service flushes all rules of the machine when it starts), they are loaded again.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from phalanx.embedded.node.network.forward import TABLE as SERVICES_TABLE
from phalanx.embedded.node.network.forward import Redirect, is_loaded, load, nft, without
from phalanx.errors import PhalanxError

TABLE = "inet phalanx"
# All rules are in one table, so only one agent may write them: the agent that has locked this file. Users may not
# open the file.
_CLAIM = Path("/run/phalanx-network.lock")
_LOOK_S = 10.0
_STRANGER = 1
_OF_USER = 1 << 31  # this bit is set in the mark of a fenced user; the other bits are the user's number
# Time-outs of connections over loopback in seconds, so that closed connections do not fill the kernel's table.
_BRIEF = "syn_sent : 10, syn_recv : 10, fin_wait : 10, close_wait : 10, last_ack : 5, time_wait : 1, close : 1"
log = logging.getLogger(__name__)
_CHAINS = """\
    chain output {
        type filter hook output priority filter; policy accept;
        oifname != "lo" accept
        tcp flags & (syn | ack) == syn jump calls
        tcp flags & (syn | ack) == (syn | ack) jump answers
    }
    chain answers {
        ip saddr @addresses ip saddr . meta skuid != @homes drop
        ip saddr SERVICES meta skuid != 0 drop
        ct mark != 0 meta skuid @fenced meta skuid . ct mark != @own drop
    }
    chain calls {
        ct mark set STRANGER
        ct mark set meta skuid map @callers
        meta skuid 0 ct mark set ip daddr map @pods
        ct state new meta nfproto ipv4 ct timeout set "brief"
        ct state new meta nfproto ipv6 ct timeout set "brief6"
    }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """A pod on this machine: its user, and its address ("" if the pod has the machine's address)."""

    user: int
    address: str = ""


def rules(pods: Iterable[Fenced], services: str) -> str:
    """Return the rules in the format of nft(8). They replace the earlier rules in one step. `services`: the network of
    the services' addresses."""
    known = list(pods)
    users = sorted({one.user for one in known} - {0})
    marks = {user: f"{_OF_USER | user:#x}" for user in users}
    homes = sorted((one.address, one.user) for one in known if one.address and one.user)
    return "".join(
        (
            f"{without(TABLE)}table {TABLE} {{\n",
            _named("set fenced", "uid", map(str, users)),
            _named("set own", "uid . mark", (f"{user} . {mark}" for user, mark in marks.items())),
            _named("map callers", "uid : mark", (f"{user} : {mark}" for user, mark in marks.items())),
            _named("map pods", "ipv4_addr : mark", (f"{address} : {marks[user]}" for address, user in homes)),
            _named("set addresses", "ipv4_addr", (address for address, _ in homes)),
            _named("set homes", "ipv4_addr . uid", (f"{address} . {user}" for address, user in homes)),
            f"    ct timeout brief {{ protocol tcp; l3proto ip; policy = {{ {_BRIEF} }}; }}\n",
            f"    ct timeout brief6 {{ protocol tcp; l3proto ip6; policy = {{ {_BRIEF} }}; }}\n",
            _CHAINS.replace("STRANGER", str(_STRANGER)).replace("SERVICES", services),
            "}\n",
        )
    )


def _named(what: str, sort: str, elements: Iterable[str]) -> str:
    listed = ", ".join(elements)
    return f"    {what} {{ type {sort};{f' elements = {{ {listed} }};' if listed else ''} }}\n"


class NetworkFence:
    """The rules of the kernel that separate users. `refusal`: why there can be no rules; "" if there can. `redirect`:
    the rules for services' addresses."""

    def __init__(self, services: str, claim: Path = _CLAIM) -> None:
        """`services`: the network of the services' addresses. `claim`: the lock file of the agent that writes the
        rules."""
        self.refusal, self.redirect = "", Redirect(services)
        self._pods: dict[str, Fenced] = {}  # uid -> pod
        self._services, self._in_force = services, ""
        self._lock, self._claim, self._claimed = asyncio.Lock(), claim, -1

    async def try_out(self) -> None:
        """Check whether the rules can be loaded on this machine, and set `refusal` otherwise. This does not change the
        kernel's rules, because rules of an earlier agent may be in force."""
        try:
            self._claimed = _lock(self._claim)
            await nft(rules([Fenced(user=1, address="127.64.0.1")], self._services), "--check", "-f", "-")
        except PhalanxError as error:
            self.refusal = str(error)

    def note(self, uid: str, pod: Fenced) -> None:
        """Note a pod that an earlier agent started. The rules of that agent cover it, and the next rules will too."""
        self._pods[uid] = pod

    async def admit(self, uid: str, pod: Fenced) -> None:
        """Load the rules that fence a pod. The caller does this before the first container of the pod starts;
        containers of other pods may be running. Raises PhalanxError."""
        if not self.refusal:
            self._pods[uid] = pod
            await self._apply()

    def forget(self, uid: str) -> None:
        """Forget the pod, which has ended. The next rules do not contain it."""
        self._pods.pop(uid, None)

    def close(self) -> None:
        """Release the lock, so that another agent can write the rules. The present rules stay."""
        if self._claimed >= 0:
            os.close(self._claimed)

    async def keep(self) -> None:
        """Check again and again, until cancelled, whether the rules still exist, and load them if they do not."""
        while True:
            await self.restore()
            await self.redirect.restore()
            await asyncio.sleep(_LOOK_S)

    async def restore(self) -> None:
        """Load the rules again if another program deleted them. Rules of an earlier agent stay unchanged until the
        first pod is admitted, because not all pods may be known before that. Raises PhalanxError."""
        async with self._lock:
            if self.refusal or not (self._pods or self._in_force):
                return
            if not await is_loaded(TABLE):
                self._in_force = ""
                log.warning("something else took the rules of the network away (nft): they are loaded again")
                await self._load_known()
                return
            if self._in_force:
                await self._load_known()

    async def _apply(self) -> None:
        async with self._lock:
            await self._load_known()

    async def _load_known(self) -> None:
        text = rules(self._pods.values(), self._services)
        if text != self._in_force:
            await load(text)
            self._in_force = text


async def take_down() -> None:
    """Delete the rules of an earlier agent, unless another running agent owns them. Raises PhalanxError."""
    claimed = _lock(_CLAIM)
    try:
        await load(without(TABLE) + without(SERVICES_TABLE))
    finally:
        os.close(claimed)


def _lock(claim: Path) -> int:
    """Lock the file and return it open. The lock ends with this process, even if the process is killed. Raises
    PhalanxError."""
    try:
        handle = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise PhalanxError(f"{claim} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise PhalanxError("another `phalanx up --shared` of this machine has the rules of its network") from None
    return handle
