"""The settings of an API server: its data directory, its address, and how much history it keeps.

Each server writes to one data directory only. To continue with the stored objects, start the server with the same
directory; to start empty, delete the directory. The server reads no environment variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from phalanx.embedded.apimachinery.limits import OBJECT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The limits of the history from which a watch can resume. The server drops the oldest events when any of these
    limits is exceeded."""

    events: int = 40_000
    size_bytes: int = 160 * 2**20
    age_s: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The settings of an API server. `host`: an address of this machine; by default the server can be reached only from
    this machine. `port`: the port; 0 stands for any free port."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    retention: Retention = field(default_factory=Retention)
    # A watch whose client has more unread bytes than this is disconnected. The client then lists and watches again, as
    # after any broken connection.
    watch_buffer_bytes: int = 64 * 2**20
    bookmark_interval_s: float = 60.0
    # The server ends a watch without timeoutSeconds after a random time between this value and twice this value, like
    # kube-apiserver.
    watch_timeout_s: float = 1800.0
    # The largest body of a write; kube-apiserver has the same limit.
    body_limit_bytes: int = OBJECT_BYTES
    # The Kubernetes release whose rules decide whether the template of a suspended Job may change.
    emulated_version: str = "1.36"
    # True to start even if the database has lost acknowledged writes.
    accept_loss: bool = False

    @property
    def database(self) -> Path:
        return self.data_dir / "apiserver.sqlite3"

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def control_plane_kubeconfig(self) -> Path:
        return self.data_dir / "control-plane.kubeconfig"

    @property
    def tokens(self) -> Path:
        return self.data_dir / "tokens.csv"

    @property
    def kubelet_token(self) -> Path:
        return self.data_dir / "kubelet.token"

    @property
    def views(self) -> Path:
        """Return the directory with the socket on which another process (the scheduler) serves API groups of its
        own."""
        return self.data_dir / "views"

    @property
    def lock(self) -> Path:
        return self.data_dir / "lock"

    @property
    def pki(self) -> Path:
        return self.data_dir / "pki"

    @property
    def account_key(self) -> Path:
        """Return the path of the key that signs the tokens of service accounts."""
        return self.pki / "sa.key"

    @property
    def ca_certificate(self) -> Path:
        return self.pki / "ca.crt"
