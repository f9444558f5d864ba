"""The remote shell of mpirun: a key pair for ssh and, where pods are processes of this machine, what stands in for ssh.

Where a container's image is `host`, no sshd runs. A container that says nothing of what it runs then serves
`remote_shell`, whose program lies in the job's ConfigMap and whose token is in the job's Secret, and mpirun is told to
use it.
"""

from __future__ import annotations

import base64
import secrets
from importlib import resources
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from phalanx.client.connection import Object

CONFIG_AT: Final = "/etc/mpi"
SSH_AT: Final = "/root/.ssh"
_HOST, _AGENT, _TOKEN = "host", "remote_shell", "rsh-token"
_KEYS = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))
KEY_ITEMS: Final = tuple({"key": key, "path": path} for key, path in _KEYS)  # the Secret's items, as files for ssh
SERVES: Final = ("python3", f"{CONFIG_AT}/{_AGENT}.py", "serve")

# Every pod is a process of this machine with an address of its own on the loopback interface: they are different
# hosts all the same, and no ssh is called.
SINGLE_MACHINE: Final = {
    "OMPI_MCA_plm_rsh_agent": f"{CONFIG_AT}/{_AGENT}",
    "OMPI_MCA_plm_rsh_args": "",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def on_this_machine(container: Object) -> bool:
    """Return True if the container runs as a process of this machine, with this machine's files."""
    return container.get("image") == _HOST


def secret_data() -> dict[str, str]:
    """Return the data of a job's Secret: a new key pair, and a new token for where there is no sshd."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    data = {"ssh-privatekey": private, "ssh-publickey": public, _TOKEN: secrets.token_hex(32).encode()}
    return {name: base64.b64encode(text).decode() for name, text in data.items()}


def programs() -> dict[str, str]:
    """Return the files that stand in for ssh, for a ConfigMap that is mounted at CONFIG_AT with mode 0555."""
    program = resources.files(__package__ or "").joinpath(f"{_AGENT}.py").read_text()
    return {f"{_AGENT}.py": program, _AGENT: f'#!/bin/sh\nexec python3 {CONFIG_AT}/{_AGENT}.py "$@"\n'}


def variables(secret: str) -> list[Object]:
    """Return the environment variables of the program. `secret`: the name of the job's Secret."""
    token = {"secretKeyRef": {"name": secret, "key": _TOKEN}}
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [{"name": "MPI_RSH_TOKEN", "valueFrom": token}, {"name": "MPI_RSH_ADDRESS", "valueFrom": address}]
