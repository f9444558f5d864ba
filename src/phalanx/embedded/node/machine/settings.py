"""The settings of a node: the directory with its state, its resources, and its intervals and time-outs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phalanx.embedded.node.container.image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The kubelet's intervals and time-outs. Only tests change them."""

    lease_renew_s: float = 10.0
    lease_duration_s: int = 40
    heartbeat_s: float = 300.0
    # The first and the longest pause of CrashLoopBackOff and ImagePullBackOff (pkg/kubelet/kubelet.go,
    # MaxContainerBackOff and backOffPeriod).
    backoff_first_s: float = 10.0
    backoff_most_s: float = 300.0
    # The pause before the start of a container is tried again because a ConfigMap was missing or a volume could not be
    # set up.
    config_retry_s: float = 5.0
    # The time between two measurements of the pods' disk usage.
    disk_look_s: float = 10.0
    # The time between two checks of the devices that a file lists.
    device_look_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of a node. `data_dir`: the folder that contains pods/ (the state and the logs of pods) and
    kubelet.token. If the API server uses the same folder, it also contains pki/. `shared`: True if pods run as the
    owners of their namespaces."""

    data_dir: Path
    name: str = ""  # the name of the node; "" for the machine's host name
    # amounts that replace or extend those of the machine, for example {"cpu": "6"}
    resources: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)  # the images other than `host`
    device_plugins: Path | None = None  # the folder in which device plugins register; None if there are no plugins
    devices: Path | None = None  # a file that lists devices
    rdma: Mapping[str, int] = field(default_factory=dict)  # counter of the kernel -> its limit per card (rdma.py)
    static_cpus: bool = False  # like the kubelet's --cpu-manager-policy=static
    shared: bool = False
    fenced: bool = False  # True if users of a shared machine cannot connect to other users' pods (fence.py)
    # the memory limit of containers that set none; 0 for no limit; None for the default in kernel_limits
    default_memory_bytes: int | None = None
    disk_reserve_bytes: int | None = None  # pods are evicted if fewer bytes are free; None for 1 GiB or 5 % of the disk
    max_pods: int = 110
    kept_log_bytes: int = 256 << 20  # the limit on the logs of deleted pods in each namespace; 0 to keep no logs
    kept_log_s: float = 30 * 86400.0
    address: str = "127.0.0.1"
    port: int = 0  # the port of the log endpoint; 0: any free port
    patience: Patience = field(default_factory=Patience)

    @property
    def pods_dir(self) -> Path:
        return self.data_dir / "pods"

    @property
    def token_file(self) -> Path:
        return self.data_dir / "kubelet.token"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSettings:
    """The settings of simulated nodes. `nodes`: the number of nodes; all nodes are equal. `time_scale`: the factor by
    which pods run faster. With 10, a pod of 200 s ends after 20 s."""

    nodes: int = 100
    cpu: str = "100"
    memory: str = "100Gi"
    gpu: int = 0
    pods: int = 1000
    labels: Mapping[str, str] = field(default_factory=dict)
    time_scale: float = 1.0
    writes_at_once: int = 32
    lease_renew_s: float = 15.0
    lease_duration_s: int = 120
