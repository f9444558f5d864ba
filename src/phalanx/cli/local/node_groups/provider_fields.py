"""Read the field `provider` of a node group in a file. The field is a mapping with one key. The key is the kind of
provider; its value has the fields of this kind.

The first part of the module checks names of labels, taints and resources. A node with an invalid name could never join
the cluster."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from phalanx.client.kind import Kind
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.errors import PhalanxError
from phalanx.providers.counted.called import read_token, trust, wrong_url
from phalanx.providers.counted.cloud_protocol import CloudAddress, require_pem, wrong_address
from phalanx.providers.counted.machines import CLUSTER_API, KINDS
from phalanx.providers.counted.suspend import PowerSettings
from phalanx.slurm.notation.hostlist import expand

OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
_HINT = "at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit"


def wrong_key(key: str) -> str:
    """Return why `key` is not valid as the key of a label or taint, or as the name of a resource; "" if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name):
        return f"{key!r} is not a key: a key has {_HINT}"
    return "" if not slash or OBJECT.fullmatch(prefix) else f"{key!r} is not a key: {prefix!r} is not a domain"


def wrong_value(value: str) -> str:
    """Return why `value` is not a valid value of a label or taint; "" if it is valid."""
    return "" if not value or _NAME.fullmatch(value) else f"{value!r} is no value: a value has {_HINT}"


def wrong_resource(resource: str) -> str:
    """Return the reason why no node can have a resource with this name; "" if the name is valid. Names of vendors'
    resources begin with a domain."""
    if "/" in resource or resource in _RESOURCES or resource.startswith("hugepages-"):
        return ""
    known = ", ".join(_RESOURCES)
    return f"no node has a resource {resource!r}: write {known}, hugepages-SIZE or a vendor's, like nvidia.com/gpu"


NODE_REQUESTS, IMAGE = "phalanx-node-requests", "registry.k8s.io/pause:3.10"
VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
CALL_S = 30.0  # the default for the maximum duration of a call to a program or web server
MOST_CALL_S = 55.0  # shorter than the time after which the scheduler cancels a call


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """An autoscaler that adds nodes for unschedulable pods: the Cluster Autoscaler, Karpenter or another one.

    `namespace`: the namespace of the pods that request nodes from the autoscaler. `image`: the image of these pods,
    which never run."""

    namespace: str
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecProvider:
    """A program that adds and removes nodes. `command`: its path and arguments. `timeout_s`: the maximum duration of a
    call, in seconds."""

    command: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookProvider:
    """A web server that adds and removes nodes. `authority`: the file with the certificate authority of the server.
    `token`: the file with the bearer token for requests. `timeout_s`: the maximum duration of a call, in seconds."""

    url: str
    authority: Path | None
    token: Path | None
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProvider:
    """A MachineDeployment or MachineSet, whose Machines become nodes. `kubeconfig`: the kubeconfig of the cluster with
    this object; None if it is in the cluster of the jobs."""

    kind: Kind
    namespace: str
    name: str
    kubeconfig: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmProvider:
    """Nodes that are powered up and down, as in Slurm, by the ResumeProgram and SuspendProgram of a site."""

    settings: PowerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudProvider:
    """A cloud provider with the Cluster Autoscaler's protocol `externalgrpc`. `group`: the id of the group at the
    provider."""

    at: CloudAddress
    group: str


ProviderFields: TypeAlias = (
    Autoscaler | ExecProvider | WebhookProvider | MachineProvider | SlurmProvider | CloudProvider
)


def read_provider(said: Fields) -> ProviderFields:
    """Return the provider of a group. `said`: the field `provider`, a mapping with one key. Raises Misread."""
    named = list(said.values)
    if len(named) != 1 or named[0] not in _READ:
        example = "for example `provider: {autoscaler: {}}`"
        raise Misread(said.path, f"name one provider: {', '.join(_READ)}; {example}")
    fields = said.fields(named[0])
    found = _READ[named[0]](fields)
    fields.done()
    return found


def _autoscaler(said: Fields) -> Autoscaler:
    namespace, image = said.text("namespace", NODE_REQUESTS), said.text("image", IMAGE)
    if not NAMESPACE.fullmatch(namespace):
        raise Misread((*said.path, "namespace"), f"{namespace!r} is not a valid namespace name")
    if not image or any(each.isspace() for each in image):
        raise Misread((*said.path, "image"), f"{image!r} is not an image")
    return Autoscaler(namespace=namespace, image=image)


def _exec(said: Fields) -> ExecProvider:
    command = said.texts("command")
    if not command:
        example = "for example [/usr/local/bin/nodes, --zone, b]; no shell interprets it"
        raise Misread((*said.path, "command"), f"the command is empty; write a list: {example}")
    path = (*said.path, "command", 0)
    if not command[0].startswith("/"):
        raise Misread(path, f"{command[0]!r} is not an absolute path")
    if not os.path.isfile(command[0]) or not os.access(command[0], os.X_OK):
        raise Misread(path, f"there is no program {command[0]} that this user may run")
    return ExecProvider(command=command, timeout_s=_timeout_s(said))


def _webhook(said: Fields) -> WebhookProvider:
    url = said.name("url")
    if why := wrong_url(url):
        raise Misread((*said.path, "url"), why)
    authority, token = _file(said, "caFile"), _file(said, "tokenFile")
    if authority is not None:
        _check(lambda: trust(authority), said, "caFile")
    if token is not None:
        _check(lambda: read_token(token), said, "tokenFile")
    return WebhookProvider(url=url, authority=authority, token=token, timeout_s=_timeout_s(said))


def _machines(said: Fields) -> MachineProvider:
    group, _, version = said.text("apiVersion", f"{CLUSTER_API}/v1beta1").partition("/")
    kind = said.text("kind", "MachineDeployment" if group == CLUSTER_API else "MachineSet")
    if (group, kind) not in KINDS or not VERSION.fullmatch(version):
        known = ", ".join(f"{kind} of {group}" for group, kind in KINDS)
        raise Misread((*said.path, "kind"), f"{kind} of {group}/{version} is not known; known are {known}")
    found = Kind(group=group, version=version, plural=KINDS[group, kind], name=kind)
    namespace = said.text("namespace", "default" if group == CLUSTER_API else "openshift-machine-api")
    name, kubeconfig = said.name("name"), _file(said, "kubeconfig")
    for field, text in (("namespace", namespace), ("name", name)):
        if not OBJECT.fullmatch(text):
            raise Misread((*said.path, field), f"{text!r} is not a valid object name")
    if kubeconfig is not None and not kubeconfig.is_file():
        raise Misread((*said.path, "kubeconfig"), f"there is no file {kubeconfig}")
    return MachineProvider(kind=found, namespace=namespace, name=name, kubeconfig=kubeconfig)


def _slurm(said: Fields) -> SlurmProvider:
    user = said.text("user", "root")
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        raise Misread((*said.path, "user"), f"there is no user {user}, as whom the programs run") from None
    if os.geteuid() not in (0, uid):
        raise Misread((*said.path, "user"), f"only root may start the programs as {user}: start the scheduler as root")
    return SlurmProvider(
        settings=PowerSettings(
            nodes=_hosts(said, "nodes", required=True),
            resume_program=_program(said, "resumeProgram"),
            suspend_program=_program(said, "suspendProgram"),
            user=user,
            resume_timeout_s=said.seconds("resumeTimeout", 60.0),
            suspend_timeout_s=said.seconds("suspendTimeout", 30.0),
            resume_rate=said.whole("resumeRate", 300, least=0),
            suspend_rate=said.whole("suspendRate", 60, least=0),
            excluded=frozenset(_hosts(said, "excluded")),
        )
    )


def _cloud(said: Fields) -> CloudProvider:
    files = {name: _file(said, name) for name in ("caFile", "certFile", "keyFile")}
    for name, file in files.items():
        if file is not None:
            _check(partial(require_pem, file), said, name)
    authority, certificate, key = files.values()
    if (certificate is None) != (key is None) or (certificate is not None and authority is None):
        raise Misread(said.path, "certFile and keyFile need each other and caFile: without it, calls use no TLS")
    address = said.name("address")
    if why := wrong_address(address, tls=authority is not None):
        raise Misread((*said.path, "address"), why)
    at = CloudAddress(address, authority, certificate, key, _timeout_s(said))
    return CloudProvider(at=at, group=said.name("group"))


def _hosts(said: Fields, name: str, *, required: bool = False) -> tuple[str, ...]:
    """Return the nodes of the hostlist expression in the field `name`."""
    text = said.name(name) if required else said.text(name)
    try:
        found = tuple(dict.fromkeys(expand(text)))
    except PhalanxError as error:
        raise Misread((*said.path, name), str(error)) from None
    if wrong := [each for each in found if not OBJECT.fullmatch(each)]:
        raise Misread((*said.path, name), f"{wrong[0]!r} is not a node name: use lowercase letters, digits, `-`, `.`")
    return found


def _program(said: Fields, name: str) -> str:
    found = said.name(name)
    if not found.startswith("/") or not os.path.isfile(found) or not os.access(found, os.X_OK):
        raise Misread((*said.path, name), f"{found!r} is not an absolute path of a program")
    return found


def _timeout_s(said: Fields) -> float:
    found = said.seconds("timeout", CALL_S)
    if not 0 < found <= MOST_CALL_S:
        raise Misread(
            (*said.path, "timeout"),
            f"{found:g} s: write more than 0 and at most {MOST_CALL_S:g} s for a call",
        )
    return found


def _file(said: Fields, name: str) -> Path | None:
    text = said.text(name)
    if text and not text.startswith("/"):
        raise Misread((*said.path, name), f"{text!r} is not an absolute path")
    return Path(text) if text else None


def _check(read: Callable[[], object], said: Fields, name: str) -> None:
    """Call `read`, which reads the file in the field `name`. If the call fails, raise Misread with the path of this
    field, so that the error message has its line."""
    try:
        read()
    except PhalanxError as error:
        raise Misread((*said.path, name), str(error)) from None


_READ: dict[str, Callable[[Fields], ProviderFields]] = {
    "autoscaler": _autoscaler,
    "machines": _machines,
    "exec": _exec,
    "webhook": _webhook,
    "slurm": _slurm,
    "externalgrpc": _cloud,
}
