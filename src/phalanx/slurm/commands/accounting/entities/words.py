"""Parse the names and values after a verb of sacctmgr, and check who may change the named entities."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence

from phalanx.slurm.accounts import limits
from phalanx.slurm.accounts.tree import coordinators, is_administrator
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.options import Usage

DENIED = (
    "sacctmgr: error: Your user doesn't have privilege to perform this action\n"
    " Error with request: Access/permission denied"
)
NOTHING, NOTHING_DELETED = " Nothing modified", " Nothing deleted"
FAIR = ("fairshare", "share", "shares")
_ENTITIES = ("account", "association", "cluster", "coordinator", "event", "qos", "tres", "user", "wckey")
_LIMITS = "grpwall grptresmins maxtresmins grptresrunmins maxtrespernode priority maxjobsaccrue grpjobsaccrue"


def entity(word: str) -> str:
    """The entity that a word begins to say; empty: none."""
    bare = word.lower()
    bare = bare.removesuffix("s") if bare not in ("qos", "tres") else bare
    return next((name for name in _ENTITIES if len(bare) >= 2 and name.startswith(bare)), "")


def pairs(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """name=value in lower case, and the bare words; `a+=b` is the name `a+`."""
    found: dict[str, str] = {}
    bare: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name.lower()] = value
        elif word.lower() not in ("where", "set"):
            bare += word.split(",")
    return found, [one for one in bare if one]


def names_of(said: Mapping[str, str], bare: Sequence[str], *keys: str) -> list[str]:
    listed = [one for key in keys for one in said.get(key, "").split(",") if one]
    return [*listed, *bare]


def may(here: Site, *accounts: str) -> bool:
    """Root, an administrator, or a coordinator of each of these accounts or of one above it."""
    if is_administrator(here):
        return True
    user = pwd.getpwuid(os.getuid()).pw_name
    return bool(accounts) and all(user in coordinators(here, account) for account in accounts)


def shares_of(text: str) -> int:
    if text.lower() == "parent":
        return -1
    if not text.isdigit():
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


def require(here: Site, *accounts: str) -> None:
    """Raises Usage unless `may`."""
    if not may(here, *accounts):
        raise Usage(DENIED)
