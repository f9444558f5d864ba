"""Parse the words that follow a verb of sacctmgr, and check whether the caller may change the named entities."""

from __future__ import annotations

import os
import pwd
import select
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.slurm.accounts import limits
from phalanx.slurm.accounts.tree import coordinators, is_administrator
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.options import Usage

DENIED = (
    "sacctmgr: error: Your user doesn't have privilege to perform this action\n"
    " Error with request: Access/permission denied"
)
NOTHING, NOTHING_DELETED = " Nothing modified", " Nothing deleted"
FAIR = ("fairshare", "share", "shares")
COMMIT = "Would you like to commit changes?"
ARCHIVE = (
    "This may result in loss of accounting database records (if Purge* options enabled).\n"
    "Are you sure you want to continue?"
)
NO_UID = "There is no uid for user"
SURE = "Are you sure you want to continue?"
_ASK_S, _INPUT = 30, 0
# verb -> its entities; users may leave out the letters in brackets
_ENTITIES = {
    "list": "ac[counts] as[sociations] cl[usters] co[nfiguration] e[vents] f[ederation] p[roblems] q[os] "
    "rese[rvations] reso[urce] ru[nawayjobs] s[tats] tre[s] t[ransactions] tx[n] u[sers] w[ckeys]",
    "add": "a[ccount] cl[uster] co[ordinator] f[ederation] q[os] r[esource] u[ser]",
    "modify": "a[ccounts] cl[usters] f[ederation] j[ob] q[os] r[esource] u[sers]",
    "delete": "a[ccounts] cl[usters] co[ordinators] f[ederations] q[os] r[esource] u[sers]",
}
_LIMITS = "grpwall grptresmins maxtresmins grptresrunmins maxtrespernode priority maxjobsaccrue grpjobsaccrue"


class SiteChange(msgspec.Struct, frozen=True):
    """The data for a change of the site by sacctmgr. `immediate`: True to make the change without asking the user
    (-i)."""

    api: ApiClient
    here: Site
    immediate: bool

    def agreed(self, question: str = COMMIT) -> bool:
        """Ask the user the question as Slurm does, and return True if the answer is yes. Otherwise print that nothing
        was changed. If there is no answer within 30 seconds, or if the input ends, the answer counts as no. Slurm would
        repeat the question without an end if the input ends."""
        if self.immediate or _is_yes(question):
            return True
        if question.startswith(NO_UID):
            return False  # after this question Slurm prints no further line
        print(" Changes Discarded" if question in (COMMIT, ARCHIVE) else "Aborted")
        return False


def _is_yes(question: str) -> bool:
    print(f"{question} (You have {_ASK_S} seconds to decide)\n(N/y): ", end="", flush=True)
    while select.select([_INPUT], [], [], _ASK_S)[0] and (answer := os.read(_INPUT, 1)):
        if answer in b"yYnN\n":
            print()
            return answer in b"yY"
        print("\nY or N please\n(N/y): ", end="", flush=True)
    print()
    return False


def typed(word: str, names: str) -> str:
    """Return the first name that the typed word abbreviates or equals; "" if there is none. `names`: words such as
    `ac[counts]`, of which a user may leave out the letters in brackets."""
    for name in names.split():
        least, _, rest = name.rstrip("]").partition("[")
        if word.startswith(least) and (least + rest).startswith(word):
            return least + rest
    return ""


def entity(verb: str, word: str) -> str:
    """Return the singular name of the entity that the word after this verb names, such as `account` for `accounts`; ""
    if it names none."""
    name = typed(word.lower(), _ENTITIES[verb])
    return name if name in ("qos", "tres", "stats") else "transaction" if name == "txn" else name.removesuffix("s")


def pairs(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return two results: the words with `=` as a mapping of name (in lower case) to value, and the names in the other
    words. In `a+=b`, the name is `a+`."""
    found: dict[str, str] = {}
    bare: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name.lower()] = value
        elif word.lower() not in ("where", "set"):
            bare += _listed(word)
    return found, bare


def _listed(text: str) -> list[str]:
    """Return the names in a comma-separated list. For an empty text, return the name "", which no entity has."""
    return [one for one in text.split(",") if one] or [""]


def names_of(said: Mapping[str, str], bare: Sequence[str], *keys: str) -> list[str]:
    return [*(one for key in keys if key in said for one in _listed(said[key])), *bare]


def may(here: Site, *accounts: str) -> bool:
    """Return True if the caller may change these accounts: if the caller is root, an operator or an administrator, or
    coordinates each of the accounts or an account above it."""
    if is_administrator(here):
        return True
    user = pwd.getpwuid(os.getuid()).pw_name
    return bool(accounts) and all(user in coordinators(here, account) for account in accounts)


def shares_of(text: str) -> int:
    if text.lower() == "parent":
        return -1
    if not text.isdecimal():
        raise Usage(
            f"sacctmgr: error: Invalid value for FairShare ({text})\n Unknown option: fairshare={text}\n"
            " Use keyword 'where' to modify condition"
        )
    return int(text)


def refuse_unknown(said: Mapping[str, str], known: set[str]) -> None:
    for name, value in said.items():
        if name not in known:
            raise Usage(f" Unknown option: {name}={value}")


def require_known(change: Mapping[str, str], known: set[str]) -> None:
    for name, value in change.items():
        if name not in known and (name in _LIMITS.split() or name in limits.NAMES):
            raise Usage(
                f"sacctmgr: error: {name} is not supported by Phalanx: set limits on the queue (docs/guide/slurm.md)"
            )
        if name not in known:
            raise limits.unknown(name, value)


def require_any(here: Site) -> None:
    """Raise Usage if the caller may not change any entity. As in Slurm, such callers are refused before entities are
    looked up."""
    me = pwd.getpwuid(os.getuid()).pw_name
    if not is_administrator(here) and not any(me in one.coordinators for one in here.accounts.values()):
        raise Usage(DENIED)


def require(here: Site, *accounts: str) -> None:
    """Raise Usage if the caller may not change these accounts (`may`)."""
    if not may(here, *accounts):
        raise Usage(DENIED)
