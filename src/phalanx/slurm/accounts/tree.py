"""Build the tree of a site's accounts with their past usage, and copy changes of accounts to the queues.

Each account is a Queue with the same name. The parent and the shares of the account are the queue's `parent` and
`weight`; the shares of its users are the queue's `accounts`. The scheduler writes the past usage to the ConfigMap
`kube-system/phalanx-usage` about once a minute.
"""

from __future__ import annotations

import os
import pwd
from typing import Any

import msgspec

from phalanx.fair_tree import (
    AccountAssociation,
    AssociationShare,
    Key,
    UserAssociation,
    account_tree,
    classic_fair_share,
    rank_fair_tree,
)
from phalanx.slurm.accounts.limits import of_queue
from phalanx.slurm.cluster.api import QUEUES, ApiClient, Object, RequestRefused
from phalanx.slurm.cluster.site import Site

_USAGE = "/api/v1/namespaces/kube-system/configmaps/phalanx-usage"


def tree(site: Site, used: dict[tuple[str, str], float]) -> tuple[AccountAssociation, dict[Key, AssociationShare]]:
    """Return the root of the tree of accounts and users, and the shares of every association. Below an account come its
    users and then its child accounts, both sorted by name. The key of the root has the name "". `used`: (account, user)
    -> past usage in billed units times seconds."""
    members: dict[str, list[UserAssociation]] = {}
    for user, associations in sorted(site.users.items()):
        for one in associations:
            key = (one.account, user)
            members.setdefault(one.account, []).append(UserAssociation(key, one.shares, used.get(key, 0.0)))
    members.setdefault("root", [UserAssociation(("root", "root"), usage=used.get(("root", "root"), 0.0))])
    accounts = {name: (account.parent, account.shares) for name, account in sorted(site.accounts.items())}
    root = account_tree(accounts, lambda name: members.get(name or "root", ()))
    return root, (classic_fair_share if site.classic else rank_fair_tree)(root)


def usage(api: ApiClient) -> dict[tuple[str, str], float]:
    """Return the past usage that the scheduler has stored: (queue, user) -> billed units times seconds."""
    found = api.find(_USAGE)
    try:
        kept: Any = msgspec.json.decode(((found or {}).get("data") or {}).get("usage") or "{}")
        return {(queue, user): float(amount) for queue, user, amount in kept.get("used", ())}
    except (msgspec.MsgspecError, ValueError, AttributeError):
        return {}


def carry(api: ApiClient, site: Site, name: str) -> None:
    """Create or change the queue of the account `name`, so that the queue has the settings of the account. If the site
    has no such account, delete the queue. Raises RequestRefused."""
    account = site.accounts.get(name)
    if account is None:
        try:
            api.delete(f"{QUEUES}/{name}")
        except RequestRefused as error:
            if error.code != 404:
                raise
        return
    shares = {user: one.shares for user, those in site.users.items() for one in those if one.account == name}
    spec: Object = {
        "parent": account.parent or None,
        "weight": account.shares if account.shares >= 0 else None,  # FairShare=parent has no equivalent as a weight
        "accounts": shares,
        "limits": of_queue(account.limits) or None,
    }
    if api.find(f"{QUEUES}/{name}") is None:
        body = {key: value for key, value in spec.items() if value not in (None, {})}
        meta = {"name": name}
        api.create(QUEUES, {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": meta, "spec": body})
    else:
        spec["accounts"] = {**dict.fromkeys(known_users(api, name)), **shares}
        known = (api.get(f"{QUEUES}/{name}").get("spec") or {}).get("limits") or {}
        if spec["limits"] is not None:  # limits that are not set to null would stay after a merge patch
            spec["limits"] = {**dict.fromkeys(known), **spec["limits"]}
        api.patch(f"{QUEUES}/{name}", {"spec": spec})


def known_users(api: ApiClient, name: str) -> list[str]:
    """Return the users whose shares the queue of an account has now."""
    return list((api.get(f"{QUEUES}/{name}").get("spec") or {}).get("accounts") or {})


def is_administrator(site: Site) -> bool:
    """Return whether the caller is root, an operator or an administrator."""
    return os.getuid() == 0 or site.admins.get(pwd.getpwuid(os.getuid()).pw_name, "None") != "None"


def coordinators(site: Site, account: str) -> set[str]:
    """Return the coordinators of an account, and of all accounts above it."""
    found: set[str] = set()
    while account in site.accounts:
        found |= {*site.accounts[account].coordinators}
        account = site.accounts[account].parent
    return found
