"""ssh: a key that all pods of the job share, in a Secret that is mounted where ssh looks for it.

The Secret `<job>-ssh` has the private key (RSA, 2048 bits, PKCS#1), its public line twice, as `id_rsa.pub` and
`authorized_keys`, and a `config` with an entry for each pod. Source:
pkg/controllers/job/plugins/ssh of Volcano v1.15.1.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano.job_spec import JobSpec
from phalanx.embedded.controllers.operators.volcano.plugins.flags import read_flags
from phalanx.embedded.controllers.operators.volcano.plugins.hosts import hosts

_HOME = "/root/.ssh"
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_DEFAULTS: dict[str, str | int | bool] = {
    "ssh-key-file-path": _HOME,
    "ssh-private-key": "",
    "ssh-public-key": "",
    "ssh-port": 22,
}


def key_pair(arguments: Sequence[str]) -> tuple[str, str]:
    """Return (private, public): the job's own, or new ones. Making them takes a tenth of a second and more."""
    said = read_flags(arguments, _DEFAULTS)
    if said["ssh-private-key"] and said["ssh-public-key"]:
        return str(said["ssh-private-key"]), str(said["ssh-public-key"])
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()}\n"


def secret_name(job: JobSpec) -> str:
    """Return the name of the Secret with the key."""
    return f"{job.name}-ssh"


def key_secret(job: JobSpec, arguments: Sequence[str], pair: tuple[str, str]) -> Object:
    """Return the Secret, without its owner."""
    private, public = pair
    texts = (private, public, public, _config(job, arguments))
    data = {name: base64.b64encode(text.encode()).decode() for name, text in zip(_FILES, texts, strict=True)}
    return {"metadata": {"name": secret_name(job)}, "data": data}


def join_keys(job: JobSpec, pod: Object, arguments: Sequence[str]) -> None:
    """Mount the key in all containers of the pod."""
    path, name = str(read_flags(arguments, _DEFAULTS)["ssh-key-file-path"]), secret_name(job)
    spec = pod["spec"]
    items = [{"key": file, "path": f".ssh/{file}"} for file in _FILES]
    secret = {"secretName": name, "items": items, "defaultMode": 0o600 if path == _HOME else 0o644}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        mount = {"name": name, "mountPath": path, "subPath": ".ssh"}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "secret": secret}]


def _config(job: JobSpec, arguments: Sequence[str]) -> str:
    port = int(read_flags(arguments, _DEFAULTS)["ssh-port"])
    port = port if 1 <= port <= 65535 else 22
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        for host in hosts(job, task):
            lines += [f"Host {host.partition('.')[0]}", f"  HostName {host}", f"  Port {port}"]
    return "\n".join(lines) + "\n"
