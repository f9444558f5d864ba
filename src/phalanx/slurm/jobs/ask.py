"""The submitted request of a job (`Ask`): the values of its options and #SBATCH lines. It is stored as JSON in one
annotation of the Job, and later in the ledger, the accounting database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from typing import Annotated

import msgspec
from msgspec import Meta

from phalanx.slurm.notation.amounts import spread

PREFIX = "slurm.phalanx.dev/"
NUMBER = PREFIX + "number"  # label and annotation: the job number
ARRAY = PREFIX + "array"  # label: the number of the job's array
ASK = PREFIX + "job"  # annotation: `Ask` as JSON
COMPONENT = PREFIX + "component-"  # annotation: `Ask` of a component of a heterogeneous job after the first
CANCELLED = PREFIX + "cancelled-by"  # annotation: the id of the user who cancelled the job, or NODE_FAILED
NODE_FAILED = "node"  # value of CANCELLED: the job ended because its node was taken down
SECRET = PREFIX + "environment"  # annotation: the Secret with the job's environment and script
POD = PREFIX + "pod."  # annotation `pod.INDEX`: the node and address of the pod with this index; the pod writes them
KEY = "PHALANX_STEP_KEY"  # in this Secret: the key with which srun proves its identity to the step daemons of the pods
TOOLS_PATH = "PHALANX_PATH"  # in this Secret: the folder of Slurm's commands, if the site copies them into the pods
TOOLS = "/opt/phalanx-tools"  # folder in pods: the commands and the step daemon (`steps.pods.bundle`)
POD_NAME = "PHALANX_POD_NAME"  # variable: the name of the pod; only set in pods that have an API token of their job

# Values of `Ask.kind`, the command that submitted the job: sbatch, salloc, or srun outside of an allocation.
BATCH, ALLOCATION, STEP = "batch", "alloc", "step"
TEXT_MOST = 1000  # the maximum length of a text that is stored only to be shown
# a job may start this number of seconds later than in Slurm, because Slurm tries a new job at once
DEADLINE_SLACK_S = 5.0


# A user may write any value into the annotation. Values outside of these bounds are rejected. So the job of one user
# cannot make the squeue of another user loop for hours, or fail at a time after the year 9999.
Count = Annotated[int, Meta(ge=0, le=1 << 22)]
Nodes = Annotated[int, Meta(ge=0, le=1 << 16)]
Amount = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)]
Moment = Annotated[float, Meta(ge=0.0, le=1e11)]


class Ask(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The request of a job. `memory_mib`: the memory per CPU if `per_cpu`, otherwise per node; None if not given.
    `limit_min`: the time limit in minutes; other times are in seconds since the epoch. `task`: the index in the array;
    None without an array. `tasks_of`: all indexes of the array. `std*`: file names, which may contain patterns such as
    %j.
    `node_cpus`: the CPUs of the partition's largest node. `kind`: the command that created the job. `restarts`: how
    often scontrol requeued the job. `warning`: the signal before the time limit (--signal). `mail`: the events for
    which `mail_user` gets a mail. `tmp_mib`: the disk space on each node. `preferred`: features that the nodes should
    have. `least_min`: the shortest acceptable time limit, in minutes. `image`: the image of the pods; `mounts`: the
    paths of the node in the pods (`/data:/mnt:ro`). `het`: the job number of the first component of the heterogeneous
    job. `het_offset`: the position of this component among the `het_size` components. `cap`: the largest number of jobs
    of `cap_group` that may run at the same time. `rank`: the priority at submission by the weights of slurm.conf, 0
    without weights; `rank_per_s`: the increase for each second of waiting. `least_cpus`: the NumCPUs that `scontrol
    update` set. `partitions`: the requested partitions if there were several; `usable`: the requested partitions whose
    limits allow the job; `partition` is the first usable partition. `gpus`: the GPUs of the whole job, if given.
    `waiting_nodes`, `waiting_tasks`: the numbers of nodes and tasks that Slurm shows for a pending job whose GPUs need
    more nodes than its tasks; 0 for other jobs. `shown`: fields that only `scontrol show job` prints."""

    name: str
    user: str
    uid: Amount
    gid: Amount
    group: str
    account: str
    partition: str
    partitions: list[str] = []
    usable: list[str] = []
    qos: str = "normal"
    submit_s: Moment = 0.0
    task: Amount | None = None
    array: Amount | None = None
    tasks_of: str = ""
    het: Amount | None = None
    het_offset: Count = 0
    het_size: Count = 0
    throttle: Count = 0
    nodes: Nodes = 1
    max_nodes: Nodes = 0
    said_nodes: bool = False
    tasks: Count = 1
    waiting_nodes: Nodes = 0
    waiting_tasks: Count = 0
    cpus_per_task: Count = 1
    tasks_per_node: Count = 0
    min_cpus: Count = 1
    least_cpus: Count = 0
    memory_mib: Amount | None = None
    per_cpu: bool = False
    gpus: Count = 0
    gpus_per_node: Count = 0
    gpu_type: str = ""
    gpu_products: list[str] = []
    tres_per_node: str = ""
    shown: dict[str, str] = {}
    limit_min: Amount | None = None
    features: str = ""
    wanted: list[str] = []
    excluded: list[str] = []
    exclusive: bool = False
    dependency: str = ""
    begin_s: Moment | None = None
    deadline_s: Moment | None = None
    nice: Amount = 0
    rank: float = 0.0
    rank_per_s: float = 0.0
    hold: str = ""
    requeue: bool = True
    restarts: Count = 0
    warning: str = ""
    wckey: str = ""
    mail: str = ""
    mail_user: str = ""
    tmp_mib: Amount = 0
    contiguous: bool = False
    overcommit: bool = False
    oversubscribe: bool = False
    preferred: str = ""
    least_min: Amount | None = None
    licenses: str = ""
    image: str = ""
    mounts: list[str] = []
    cap: Count = 0
    cap_group: str = ""
    cap_reason: str = ""
    node_cpus: Count = 0
    comment: str | None = None
    reservation: str = ""
    command: str = ""
    workdir: str = ""
    stdin: str = "/dev/null"
    stdout: str = ""
    stderr: str = ""
    line: str = ""
    host: str = ""
    pid: Amount = 0
    kind: str = BATCH

    @property
    def cpus(self) -> int:
        if not self.nodes:  # -N 0: Slurm accepts such a job only with --hold, and refuses its release
            return self.cpus_per_task if self.cpus_per_task > 1 else 0
        return self.node_count if self.overcommit else max(self.least_cpus, self.tasks * self.cpus_per_task)

    @property
    def total_gpus(self) -> int:
        return self.gpus or self.gpus_per_node * self.node_count

    @property
    def node_count(self) -> int:
        return max(1, self.nodes)

    @property
    def shown_nodes(self) -> int:
        """Return the number of nodes that Slurm shows for a pending job. For tasks with several CPUs each, Slurm shows
        one node more than needed, unless the tasks fill whole nodes (measured with Slurm 22.05)."""
        if self.waiting_nodes or not self.nodes:
            return self.waiting_nodes
        if self.cpus_per_task == 1 or self.tasks == 1 or not self.node_cpus:
            return self.node_count
        whole, rest = divmod(self.cpus, self.node_cpus)
        return max(self.node_count if self.said_nodes else 1, whole) + (rest > 0)

    @property
    def total_mib(self) -> int:
        if self.memory_mib is None:
            return 0
        return self.memory_mib * (self.cpus if self.per_cpu else self.node_count)

    @property
    def shares(self) -> list[int]:
        """Return a list with the number of tasks on each node."""
        most = max(1, self.node_cpus // self.cpus_per_task) if self.node_cpus else self.tasks
        return spread(self.tasks, [most] * self.node_count, self.tasks_per_node)

    @property
    def cpus_of_nodes(self) -> list[int]:
        if self.overcommit:
            return [self.min_cpus] * self.node_count
        if self.exclusive and self.node_cpus:
            return [self.node_cpus] * self.node_count
        least = max(self.min_cpus, -(-self.least_cpus // self.node_count))
        return [max(least, share * self.cpus_per_task) for share in self.shares]


def read_ask(annotations: Mapping[str, str]) -> Ask | None:
    """Return the request in a Job's annotations; None if no Slurm command created the Job, or if a user has made the
    annotation invalid."""
    try:
        return msgspec.json.decode(_text(annotations), type=Ask)
    except msgspec.MsgspecError:
        return None


def _text(annotations: Mapping[str, str]) -> str:
    return annotations.get(ASK) or next((one for key, one in annotations.items() if key.startswith(COMPONENT)), "")


class Asks:
    """Read the requests of many Jobs. The requests of an array's tasks differ only by the index of the task, so only
    one of them is parsed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Ask] = {}

    def read(self, annotations: Mapping[str, str]) -> Ask | None:
        """Return the result of `read_ask`, with each control character replaced by a question mark, because the texts
        are printed to terminals."""
        found = self._read(annotations)
        return found if found is None or not _STEERING.search(_text(annotations)) else _printable(found)

    def _read(self, annotations: Mapping[str, str]) -> Ask | None:
        # JSON escapes a quote inside a string, so `,"task":` can only be the field `task`.
        before, mark, after = annotations.get(ASK, "").partition(',"task":')
        task, _, rest = after.partition(",")
        if not mark or not task.isdecimal():
            return read_ask(annotations)
        if (known := self._known.get((before, rest))) is None:
            if (known := read_ask(annotations)) is not None:
                self._known[before, rest] = known
            return known
        found = copy(known)
        found.task = int(task)
        return found


# Control characters, raw or as JSON escapes.
_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f]|\\(?:[bfnrt]|u00[0189][0-9a-fA-F]|u007[fF])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return a user's text with each control character replaced by a question mark, because control characters could
    change the terminal of a reader."""
    return text if text.isprintable() else _CONTROL.sub("?", text)


def parse_ask(text: str) -> Ask:
    """Return the request that the JSON `text` describes. Control characters are replaced, because the texts are printed
    to terminals. Raises MsgspecError."""
    found = msgspec.json.decode(text, type=Ask)
    return _printable(found) if _STEERING.search(text) else found


def _printable(ask: Ask) -> Ask:
    texts = {name: getattr(ask, name) for name in ask.__struct_fields__}
    return msgspec.structs.replace(ask, **{n: printable(text) for n, text in texts.items() if isinstance(text, str)})
