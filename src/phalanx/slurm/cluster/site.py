"""What Slurm's commands know of a cluster: its partitions, accounts and defaults.

It stands as JSON in the ConfigMap `kube-system/phalanx-slurm`, so that all who may read it see the same, and only
administrators may change it. Where there is none, there is one partition `batch` of all nodes, without limits, and
every queue is an account. A slurm.conf becomes one (`conf`).
"""

from __future__ import annotations

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api, Object

PATH = "/api/v1/namespaces/kube-system/configmaps"
NAME = "phalanx-slurm"
_KEY = "site"
FEATURE = "feature.slurm.phalanx.dev/"  # on nodes: Slurm's features


class Weights(msgspec.Struct, kw_only=True, omit_defaults=True):
    """As in slurm.conf. `max_age_s`: the age that counts 1. `tres`: by Slurm's names of resources. `relative_to_time`:
    the flag SMALL_RELATIVE_TO_TIME."""

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
    """`nodes` empty: all. Minutes; None: no limit. `state`: UP, DOWN, DRAIN or INACTIVE. `mem_per_cpu_mib`: what a job
    that says nothing asks."""

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
    """A user in an account. `qos` empty: those of the account. `limits`: as sacctmgr names and writes them."""

    account: str
    shares: int = 1
    qos: list[str] = []
    default_qos: str = ""
    limits: dict[str, str] = {}


class Account(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`parent` empty: the root. Each is a queue of the same name. `limits`: as sacctmgr names and writes them.
    `coordinators`: users who may change it, its users and the accounts below it."""

    description: str = ""
    organization: str = ""
    parent: str = ""
    shares: int = 1
    limits: dict[str, str] = {}
    coordinators: list[str] = []


class Qos(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`limits`: as sacctmgr names and writes them."""

    description: str = ""
    priority: int = 0
    limits: dict[str, str] = {}
    flags: list[str] = []
    preempt: list[str] = []
    usage_factor: float = 1.0


class Site(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`users`: user -> his associations, the first being the default; where there are any, who has none may submit
    nothing. `keep_s`: so long are finished jobs shown (MinJobAge). `kill_wait_s`: between SIGTERM and SIGKILL."""

    cluster: str = "phalanx"
    first_job: int = 1
    max_array: int = 1001
    keep_s: int = 300
    kill_wait_s: int = 30
    partitions: list[Partition] = []
    users: dict[str, list[Association]] = {}
    wckeys: dict[str, list[str]] = {}  # user -> those that he may name
    admins: dict[str, str] = {}  # user -> Operator or Administrator, where he is one
    accounts: dict[str, Account] = {}
    qos: dict[str, Qos] = msgspec.field(default_factory=lambda: {"normal": Qos(description="Normal QOS default")})
    features: dict[str, list[str]] = {}  # node -> its features
    sockets: dict[str, str] = {}  # node -> `2:8:1`, its sockets, cores of each and threads of each core
    licenses: dict[str, int] = {}  # licence -> how many jobs may have one at a time
    mail_program: str = "/bin/mail"  # MailProg: called as mail(1) is
    prolog: str = ""  # run in each pod before the script, as the job's user
    epilog: str = ""  # run in each pod after the script
    tools: str = ""  # an image of Phalanx, from which pods of other images get srun and the step daemon
    weights: Weights = msgspec.field(default_factory=Weights)
    classic: bool = False  # PriorityFlags=NO_FAIR_TREE: FairShare by the classic formula, in sshare and sprio

    @property
    def all(self) -> list[Partition]:
        return self.partitions or [Partition(name="batch", default=True)]

    @property
    def default(self) -> Partition | None:
        return next((partition for partition in self.all if partition.default), None)

    def partition(self, name: str) -> Partition | None:
        return next((partition for partition in self.all if partition.name == name), None)


def load(api: Api) -> Site:
    found = api.find(f"{PATH}/{NAME}")
    if found is None:
        return Site()
    try:
        return msgspec.json.decode((found.get("data") or {}).get(_KEY, "{}"), type=Site)
    except msgspec.MsgspecError as error:
        raise PhalanxError(f"the ConfigMap kube-system/{NAME} cannot be read: {error}") from None


def store(api: Api, site: Site) -> None:
    body: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME},
        "data": {_KEY: msgspec.json.encode(site).decode()},
    }
    if api.find(f"{PATH}/{NAME}") is None:
        api.create(PATH, body)
    else:
        api.patch(f"{PATH}/{NAME}", {"data": body["data"]})
    from phalanx.slurm.cluster.admission import enforce

    enforce(api, {user: [one.account for one in theirs] for user, theirs in site.users.items()})
