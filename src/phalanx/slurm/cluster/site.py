"""The configuration of a cluster for Slurm's commands: its partitions, accounts and defaults.

The configuration (the *site*) is stored in the ConfigMap `kube-system/phalanx-slurm`. Without this ConfigMap, the site
has one partition `batch` with all nodes and without limits, and every queue is an account. `conf` creates a site from a
slurm.conf.

Each account has its own keys in the ConfigMap, so that the API server can allow a coordinator to write only the keys of
this account (`phalanx.embedded.login.coordinators`). The keys are `account.NAME`, `users.NAME`, `members.NAME`,
`coordinators.NAME`, and `path.NAME` with the names of the accounts from the topmost account down to this one. The keys
of members, coordinators and paths have plain text, because admission policies read them; the other keys have JSON. The
key `site` has the settings that only operators change. A command writes only the keys that it changes, so concurrent
changes of two accounts both succeed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.admission import MEMBERS, SITE, bind_coordinators, enforce
from phalanx.slurm.cluster.api import ApiClient, Object, RequestRefused

PATH = "/api/v1/namespaces/kube-system/configmaps"
_REST, _ACCOUNT, _PATH, _USERS, _COORDINATORS = "site", "account.", "path.", "users.", "coordinators."
_OF_ACCOUNTS = (_ACCOUNT, _PATH, _USERS, MEMBERS, _COORDINATORS)
POWER = "power."  # the scheduler writes these keys: power.NODE = `resuming SINCE REQUEST` or `suspending UNTIL`
FEATURE = "feature.slurm.phalanx.dev/"  # prefix of node labels: each label is a feature of the node in Slurm


class Weights(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The priority weights of slurm.conf. `max_age_s`: the waiting time at which the age factor is 1. `tres`: weights
    by Slurm's names of resources. `relative_to_time`: the flag SMALL_RELATIVE_TO_TIME."""

    age: int = 0
    assoc: int = 0
    fair_share: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    tres: dict[str, float] = {}
    max_age_s: int = 7 * 86400
    favor_small: bool = False
    relative_to_time: bool = False

    @property
    def any(self) -> bool:
        return bool(
            self.age or self.assoc or self.fair_share or self.job_size or self.partition or self.qos or self.tres
        )


class Partition(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A partition. `nodes`: its nodes; empty: all nodes. `max_min`, `default_min`: time limits in minutes; None: no
    limit. `state`: UP, DOWN, DRAIN or INACTIVE. `mem_per_cpu_mib`: the memory per CPU of a job that requests no
    memory."""

    name: str
    nodes: list[str] = []
    default: bool = False
    max_min: int | None = None
    default_min: int | None = None
    max_nodes: int | None = None
    state: str = "UP"
    accounts: list[str] = []
    mem_per_cpu_mib: int | None = None
    priority: int = 1


class Association(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An association: the membership of a user in an account. `qos`: the QOS that the user may request; empty: those of
    the account. `limits`: limits in sacctmgr's names and notation. `rank`: a user's associations are sorted by rank,
    then by the account's name. `number`: the id of the association in the output of sacctmgr. Ids are given in the
    order of creation; an association of an earlier version of Phalanx has 0."""

    account: str
    shares: int = 1
    qos: list[str] = []
    default_qos: str = ""
    limits: dict[str, str] = {}
    rank: int = 0
    number: int = 0


class Account(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An account. Each account is a queue with the same name. `parent`: the parent account; "" for the root. `limits`:
    limits in sacctmgr's names and notation. `coordinators`: the users that may change the account. `number`: the id of
    the account's association in the output of sacctmgr. Ids are given in the order of creation; an account of an
    earlier version of Phalanx has 0."""

    description: str = ""
    organization: str = ""
    parent: str = ""
    shares: int = 1
    limits: dict[str, str] = {}
    coordinators: list[str] = []
    number: int = 0


class Qos(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A QOS. `limits`: limits in sacctmgr's names and notation."""

    description: str = ""
    priority: int = 0
    limits: dict[str, str] = {}
    flags: list[str] = []
    preempt: list[str] = []
    usage_factor: float = 1.0


class CloudNode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The resources that a node with State=CLOUD in slurm.conf has when it is switched on."""

    cpus: int
    memory_mib: int
    gpus: int = 0


class Site(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The configuration of a cluster. `users`: user -> the user's associations, the default association first. If any
    user has associations, users without an association may not submit jobs. `keep_s`: the time in seconds for which
    squeue shows ended jobs (MinJobAge). `kill_wait_s`: the seconds between SIGTERM and SIGKILL. `read`: the ConfigMap
    from which the site was read; empty if it does not exist."""

    cluster: str = "phalanx"
    first_job: int = 1
    max_array: int = 1001
    keep_s: int = 300
    kill_wait_s: int = 30
    partitions: list[Partition] = []
    users: dict[str, list[Association]] = {}
    wckeys: dict[str, list[str]] = {}  # user -> the WCKeys that the user may use
    admins: dict[str, str] = {}  # user -> Operator or Administrator; users without an admin level are missing
    accounts: dict[str, Account] = {}
    qos: dict[str, Qos] = msgspec.field(default_factory=lambda: {"normal": Qos(description="Normal QOS default")})
    features: dict[str, list[str]] = {}  # node -> its features
    sockets: dict[str, str] = {}  # node -> `2:8:1`: sockets, cores per socket, threads per core
    disks_mib: dict[str, int] = {}  # node -> TmpDisk, the maximum for --tmp
    cloud: dict[str, CloudNode] = {}  # node that programs switch on and off -> its size
    licenses: dict[str, int] = {}  # license -> the number of running jobs that may use it at the same time
    mail_program: str = "/bin/mail"  # MailProg: a program with the arguments of mail(1)
    prolog: str = ""  # run in each pod before the script, as the job's user
    epilog: str = ""  # run in each pod after the script
    tools: str = ""  # an image of Phalanx; pods with other images get srun and the step daemon from this image
    weights: Weights = msgspec.field(default_factory=Weights)
    counts_gpus: bool = True  # AccountingStorageTRES=gres/gpu: nodes and partitions show their GPUs among their TRES
    classic: bool = False  # PriorityFlags=NO_FAIR_TREE: FairShare by the classic formula, in sshare and sprio
    read: Object = {}

    def keep(self, before: Site) -> None:
        """Take over those settings of `before` that a slurm.conf does not contain: the settings of sacctmgr, and the
        image with the tools."""
        self.users, self.accounts, self.qos = before.users, before.accounts, before.qos
        self.admins, self.wckeys, self.tools, self.read = before.admins, before.wckeys, before.tools, before.read

    @property
    def all(self) -> list[Partition]:
        return self.partitions or [Partition(name="batch", default=True)]

    @property
    def default(self) -> Partition | None:
        return next((partition for partition in self.all if partition.default), None)

    def next_number(self) -> int:
        """Return the number of the next association. The account root has number 1, and the user root in it has number
        2."""
        numbers = [one.number for theirs in self.users.values() for one in theirs]
        return 1 + max([2, *numbers, *(account.number for account in self.accounts.values())])

    def partition(self, name: str) -> Partition | None:
        return next((partition for partition in self.all if partition.name == name), None)


def load(api: ApiClient) -> Site:
    found = api.find(f"{PATH}/{SITE}")
    if found is None:
        return Site()
    try:
        here = parse(found.get("data") or {})
    except msgspec.MsgspecError as error:
        raise PhalanxError(f"the ConfigMap kube-system/{SITE} cannot be read: {error}") from None
    here.read = found
    return here


@lru_cache
def cluster_name(kubeconfig: str | None) -> str:
    """Return the name of the cluster. `kubeconfig`: the value of $KUBECONFIG; it is only the key of the cache."""
    return load(ApiClient.open()).cluster


def parse(data: Mapping[str, str]) -> Site:
    """Return the site that the data of its ConfigMap describes. Raises MsgspecError."""
    here = msgspec.json.decode(data.get(_REST, "{}"), type=Site)
    # ConfigMaps of earlier versions have the users in the key `site`.
    here.users = {user: _ranked(theirs) for user, theirs in here.users.items()}
    for key, text in sorted(data.items()):
        if key.startswith(_PATH):
            name = key.removeprefix(_PATH)
            account = msgspec.json.decode(data.get(_ACCOUNT + name, "{}"), type=Account)
            account.parent = text.split("/")[-2] if "/" in text else ""
            account.coordinators = [one for one in data.get(_COORDINATORS + name, "").split(",") if one]
            here.accounts[name] = account
        elif key.startswith(_USERS):
            for user, one in msgspec.json.decode(text, type=dict[str, Association]).items():
                here.users.setdefault(user, []).append(one)
    for theirs in here.users.values():
        theirs.sort(key=_rank)
    return here


def keys(here: Site) -> dict[str, str]:
    """Return the data of the ConfigMap that describes the site."""
    users: dict[str, dict[str, Association]] = {}
    for user, theirs in sorted(here.users.items()):
        for one in _ranked(theirs):
            users.setdefault(one.account, {})[user] = one
    bare = msgspec.structs.replace(here, accounts={}, users={}, read={})
    found = {_REST: _json(bare)}
    for name, account in here.accounts.items():
        found[_ACCOUNT + name] = _json(msgspec.structs.replace(account, parent="", coordinators=[]))
        found[_PATH + name] = "/".join(_above(here, name))
        if account.coordinators:
            found[_COORDINATORS + name] = ",".join(account.coordinators)
    for name, members in users.items():
        found[_USERS + name] = _json(members)
        found[MEMBERS + name] = ",".join(members)
    return found


def _json(part: object) -> str:
    return msgspec.json.encode(part).decode()


def _above(here: Site, name: str) -> list[str]:
    """Return the path of an account: the names of the accounts from the topmost account down to this account."""
    found: list[str] = []
    while name in here.accounts and name not in found:
        found.insert(0, name)
        name = here.accounts[name].parent
    return found


def _rank(one: Association) -> tuple[int, str]:
    return one.rank, one.account


def _ranked(theirs: Sequence[Association]) -> list[Association]:
    """Return a user's associations with ranks that sort them in the given order. The function changes as few ranks as
    it needs to, because coordinators may change only the keys of their own accounts."""
    found = list(theirs[:1])
    if any(_rank(one) < _rank(theirs[0]) for one in theirs[1:]):
        found = [msgspec.structs.replace(theirs[0], rank=min(one.rank for one in theirs[1:]) - 1)]
    for one in theirs[1:]:
        last = found[-1]
        found.append(one if _rank(last) < _rank(one) else msgspec.structs.replace(one, rank=last.rank + 1))
    return found


def store(api: ApiClient, here: Site) -> None:
    """Write the keys of the ConfigMap that have changed since the site was read. Raises RequestRefused. Raises
    PhalanxError if another writer has changed one of these keys since then."""
    before: dict[str, str] = here.read.get("data") or {}
    wanted = keys(here)
    gone = [key for key in before if key.startswith(_OF_ACCOUNTS) and key not in wanted]
    changed = {key: text for key, text in wanted.items() if before.get(key) != text} | dict.fromkeys(gone)
    if not here.read:
        api.create(PATH, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SITE}, "data": changed})
    elif changed:
        _patch(api, changed, here.read)
    if any(key.startswith(_COORDINATORS) for key in changed):
        bind_coordinators(api, {user for account in here.accounts.values() for user in account.coordinators})
    if here.users:
        enforce(api)


def _patch(api: ApiClient, changed: Mapping[str, str | None], seen: Object) -> None:
    """Write the changed keys to the ConfigMap. `seen`: the ConfigMap as it was read. If the ConfigMap has changed since
    then, it is patched only if these keys have not changed."""
    now = seen
    while all((now.get("data") or {}).get(key) == (seen.get("data") or {}).get(key) for key in changed):
        version = now["metadata"]["resourceVersion"]
        try:
            api.patch(f"{PATH}/{SITE}", {"metadata": {"resourceVersion": version}, "data": changed})
            return
        except RequestRefused as error:
            if error.code != 409:
                raise
            now = api.get(f"{PATH}/{SITE}")
    names = ", ".join(sorted(changed))
    raise PhalanxError(f"another writer has just changed {names} of the ConfigMap kube-system/{SITE}: try again")
