"""What a job asked, as it is kept with it: in one annotation of its Job, and from there in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

import msgspec

from phalanx.slurm.notation.amounts import spread

PREFIX = "slurm.phalanx.dev/"
NUMBER = PREFIX + "number"  # label and annotation: the job number
ARRAY = PREFIX + "array"  # label: the number of its array
ASK = PREFIX + "job"  # annotation: `Ask` as JSON
COMPONENT = PREFIX + "component-"  # annotation: `Ask` of a component of a heterogeneous job after the first
CANCELLED = PREFIX + "cancelled-by"  # annotation: the uid of who cancelled it
SECRET = PREFIX + "environment"  # annotation: the Secret with its environment and script
POD = PREFIX + "pod."  # annotation: where the pod of that index is, as it says itself
KEY = "PHALANX_STEP_KEY"  # in that Secret: by what step daemons know their callers
TOOLS_PATH = "PHALANX_PATH"  # in that Secret, where the pods have the tools of the site
TOOLS = "/opt/phalanx-tools"  # in containers of other images: the commands and the step daemon (`steps.pods.bundle`)
POD_NAME = "PHALANX_POD_NAME"  # variable of pods that have a token of their job's

# How it came: from sbatch; from salloc; from srun outside of an allocation.
BATCH, ALLOCATION, STEP = "batch", "alloc", "step"
TEXT_MOST = 1000  # characters of what is only shown


class Ask(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory_mib` per CPU if `per_cpu`, else per node; None: nothing was said. Minutes. `task` None: no array.
    `tasks_of`: all tasks of its array. `args`: of the script. `std*`: file names with their patterns.
    `node_cpus`: those of the partition's largest node. `kind`: how it came.
    `restarts`: how often scontrol requeued it. `warning`: what it is
    told before its time is over. `mail`: when somebody is told, and `mail_user` who. `tmp_mib`: of each node's disk.
    `preferred`: features of nodes that it would rather have. `least_min`: the time limit that it could do with.
    `image`: of its pods, and `mounts` what they see of the node (`/data:/mnt:ro`).
    `het`: the number of its heterogeneous job's first component, and which of `het_size` it is.
    `cap`: so many of `cap_group` run at a time."""

    name: str
    user: str
    uid: int
    gid: int
    group: str
    account: str
    partition: str
    qos: str = "normal"
    submit_s: float = 0.0
    task: int | None = None
    array: int | None = None
    tasks_of: str = ""
    het: int | None = None
    het_offset: int = 0
    het_size: int = 0
    throttle: int = 0
    nodes: int = 1
    max_nodes: int = 0
    said_nodes: bool = False
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    min_cpus: int = 1
    memory_mib: int | None = None
    per_cpu: bool = False
    gpus_per_node: int = 0
    tres_per_node: str = ""
    limit_min: int | None = None
    features: str = ""
    wanted: list[str] = []
    excluded: list[str] = []
    exclusive: bool = False
    dependency: str = ""
    begin_s: float | None = None
    deadline_s: float | None = None
    nice: int = 0
    hold: str = ""
    requeue: bool = True
    restarts: int = 0
    warning: str = ""
    wckey: str = ""
    mail: str = ""
    mail_user: str = ""
    tmp_mib: int = 0
    contiguous: bool = False
    overcommit: bool = False
    oversubscribe: bool = False
    preferred: str = ""
    least_min: int | None = None
    licenses: str = ""
    image: str = ""
    mounts: list[str] = []
    cap: int = 0
    cap_group: str = ""
    cap_reason: str = ""
    node_cpus: int = 0
    comment: str = ""
    reservation: str = ""
    command: str = ""
    workdir: str = ""
    stdin: str = "/dev/null"
    stdout: str = ""
    stderr: str = ""
    line: str = ""
    host: str = ""
    pid: int = 0
    kind: str = BATCH

    @property
    def cpus(self) -> int:
        return self.node_count if self.overcommit else self.tasks * self.cpus_per_task

    @property
    def node_count(self) -> int:
        return max(1, self.nodes)

    @property
    def shown_nodes(self) -> int:
        """Return how many nodes Slurm says of a job that waits: for tasks with several CPUs one more than are needed,
        unless they fill whole nodes (measured, 22.05)."""
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
        """How many tasks each node gets."""
        most = max(1, self.node_cpus // self.cpus_per_task) if self.node_cpus else self.tasks
        return spread(self.tasks, [most] * self.node_count, self.tasks_per_node)

    @property
    def cpus_of_nodes(self) -> list[int]:
        if self.overcommit:
            return [self.min_cpus] * self.node_count
        if self.exclusive and self.node_cpus:
            return [self.node_cpus] * self.node_count
        return [max(self.min_cpus, share * self.cpus_per_task) for share in self.shares]


def read_ask(annotations: Mapping[str, str]) -> Ask | None:
    """Return what a Job's annotations say; None: it is somebody else's, or was edited by hand."""
    text = annotations.get(ASK) or next((one for key, one in annotations.items() if key.startswith(COMPONENT)), "")
    try:
        return msgspec.json.decode(text, type=Ask)
    except msgspec.MsgspecError:
        return None


class Asks:
    """Reads what many Jobs ask. The tasks of an array ask the same but for their number, so theirs is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Ask] = {}

    def read(self, annotations: Mapping[str, str]) -> Ask | None:
        """As `read_ask`."""
        # Quotes within a text are written as \\", so this is the field.
        before, mark, after = annotations.get(ASK, "").partition(',"task":')
        task, _, rest = after.partition(",")
        if not mark or not task.isdigit():
            return read_ask(annotations)
        if (known := self._known.get((before, rest))) is None:
            if (known := read_ask(annotations)) is not None:
                self._known[before, rest] = known
            return known
        found = copy(known)
        found.task = int(task)
        return found
