"""Prevent users of a shared machine from connecting to each other's programs, by kernel rules (nft(8)).
docs/decisions/0050 has the reasons.

All pods share the machine's network, so every program can reach every listening address. But the kernel records the
owner of each socket. Each connection over the loopback device gets a mark that names the user of the client. When a
listener of a *fenced* user sends the second packet of the TCP handshake, the kernel drops this packet unless the mark
names the same user. So only processes of the same user can connect to the listener, at any address.

Only the user of a pod may accept connections at the address of the pod. Only root, which forwards connections, may
accept connections at the address of a service. So a program of another user gets no connection at the address of a pod
or service, even if this program listens on all addresses, or began to listen on this address first.

Connections of root do not count as connections of the listener's user, because programs of root forward connections of
any user (services, `kubectl port-forward`, probes). There is one exception: root's connections to the address of a pod
count as connections of the pod's user, because the API server has authorized them.

A user is fenced from the start of the user's first pod until the end of the last. Root is never fenced, because the API
server runs as root. When the node agent ends, the rules stay in the kernel, because the pods continue to run. If
another program deletes the rules in the meantime (Debian's nftables.service flushes all rules of the machine when it
starts), they are loaded again.
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
_OF_USER = 1 << 31  # this bit of a mark means that the user is fenced; the other bits are the uid
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
    """The user and the address of a pod on this machine. `address`: "" if the pod has the machine's address."""

    user: int
    address: str = ""


def rules(pods: Iterable[Fenced], services: str) -> str:
    """Return the rules in the format of nft(8). These rules replace the earlier rules in one step. `services`: the
    network of the services' addresses."""
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
    """The rules of the kernel that separate users. `refusal`: the reason why rules cannot be loaded; "" if they can be
    loaded. `redirect`: the rules for services' addresses."""

    def __init__(self, services: str, claim: Path = _CLAIM) -> None:
        """`services`: the network of the services' addresses. `claim`: the lock file of the agent that writes the
        rules."""
        self.refusal, self.redirect = "", Redirect(services)
        self._pods: dict[str, Fenced] = {}  # uid -> pod
        self._services, self._in_force = services, ""
        self._lock, self._claim, self._claimed = asyncio.Lock(), claim, -1

    async def try_out(self) -> None:
        """Check whether the rules can be loaded on this machine. If not, set `refusal`. The check does not change the
        kernel's rules, because rules of an earlier agent may be in force."""
        try:
            self._claimed = _lock(self._claim)
            await nft(rules([Fenced(user=1, address="127.64.0.1")], self._services), "--check", "-f", "-")
        except PhalanxError as error:
            self.refusal = str(error)

    def note(self, uid: str, pod: Fenced) -> None:
        """Record a pod that an earlier agent process started. The rules in the kernel already include the pod; rules
        that are loaded later will include it as well."""
        self._pods[uid] = pod

    async def admit(self, uid: str, pod: Fenced) -> None:
        """Load the rules that fence a pod. The caller does this before the first container of the pod starts;
        containers of other pods may be running. Raises PhalanxError."""
        if not self.refusal:
            self._pods[uid] = pod
            await self._apply()

    def forget(self, uid: str) -> None:
        """Remove the pod, which has ended. Rules that are loaded later do not include it."""
        self._pods.pop(uid, None)

    def close(self) -> None:
        """Release the lock, so that another agent can write the rules. The present rules stay."""
        if self._claimed >= 0:
            os.close(self._claimed)

    async def keep(self) -> None:
        """Check regularly, until cancelled, whether the rules are still in the kernel, and load them again if they are
        not."""
        while True:
            await self.restore()
            await self.redirect.restore()
            await asyncio.sleep(_LOOK_S)

    async def restore(self) -> None:
        """Load the rules again if another program deleted them. Rules of an earlier agent process stay unchanged until
        the first pod is admitted, because until then this process may not know all running pods. Raises
        PhalanxError."""
        async with self._lock:
            if self.refusal or not (self._pods or self._in_force):
                return
            if not await is_loaded(TABLE):
                self._in_force = ""
                log.warning("another program deleted the network rules (nft); they are loaded again")
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
    """Lock the file, and return its file descriptor. The kernel releases the lock when this process ends, even if the
    process is killed. Raises PhalanxError."""
    try:
        handle = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise PhalanxError(f"{claim} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise PhalanxError("another `phalanx up --shared` owns the network rules of this machine") from None
    return handle
