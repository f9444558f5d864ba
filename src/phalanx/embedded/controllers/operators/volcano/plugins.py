"""Apply the plugins of a Job: change its pods, and build the additional objects of the plugins.

The arguments of a plugin are parsed like those of Go's flag package: `--x=y`, `-x=y` and `--x y`. Arguments after an
unknown or invalid argument are ignored.

The pods of a job have the host names `<hostname>.<subdomain>`. If the template of a task sets `hostname`, all pods of
this task have the same host name. Source: pkg/controllers/job/helpers and plugins/distributed-framework of Volcano
v1.15.1.

The plugins tensorflow, pytorch, mpi, ray and hcclrank give each process of a distributed program its role and rank.

Source: pkg/controllers/job/plugins/distributed-framework of Volcano v1.15.1. As in Volcano, RANK is 0 for every pod of
pytorch's master task, and the plugin ray replaces the command of every container by a command that starts ray.

The plugin ssh gives the same key to all pods of the job, in a Secret that is mounted at the path where ssh reads keys.
The Secret `<job>-ssh` has the private key (RSA, 2048 bits, PKCS#1), the public key as `id_rsa.pub` and as
`authorized_keys`, and a `config` with an entry for each pod. Source: pkg/controllers/job/plugins/ssh of Volcano
v1.15.1.

The plugin svc creates a headless Service with the name of the job, so that its pods have host names, and provides these
names to the pods in files and environment variables. The ConfigMap `<job>-svc`, mounted at /etc/volcano, has three keys
for each task T (with `_` for `-`): `T.host` with one host in each line, `VC_<T>_HOSTS` (separated by commas) and
`VC_<T>_NUM`. Every container also has environment variables with the names of the last two keys. A NetworkPolicy allows
only connections from the job's own pods. Source: pkg/controllers/job/plugins/svc of Volcano v1.15.1.

The last part applies all plugins that a Job names to a pod of the Job."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from phalanx.client.connection import Object
from phalanx.client.kind import CONFIG_MAPS, SERVICES, Kind
from phalanx.embedded.controllers.operators.volcano.job_spec import JobFault, JobSpec, VolcanoTask
from phalanx.embedded.controllers.operators.volcano.kinds import JOB_NAME, JOB_NAMESPACE, NETWORK_POLICIES, TASK_SPEC

_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


def read_flags(arguments: Sequence[str], defaults: Mapping[str, str | int | bool]) -> dict[str, str | int | bool]:
    """Return the value of each flag: the value in `arguments`, or else the default."""
    found, rest = dict(defaults), list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        bare = name.lstrip("-")
        if not name.startswith("-") or len(name) - len(bare) > 2 or bare not in defaults:
            break
        default = defaults[bare]
        if not equals:
            if isinstance(default, bool):
                value = "true"
            elif rest:
                value = rest.pop(0)
            else:
                break
        read = _read(value, default)
        if read is None:
            break
        found[bare] = read
    return found


def _read(value: str, default: str | int | bool) -> str | int | bool | None:
    if isinstance(default, bool):
        return True if value in _TRUE else False if value in _FALSE else None
    if isinstance(default, int):
        return int(value) if value.lstrip("+-").isdigit() else None
    return value


def pod_name(job: str, task: str, index: int) -> str:
    """Return the name of a pod: `<job>-<task>-<index>`."""
    return f"{job}-{task}-{index}"


def host(job: JobSpec, task: VolcanoTask, index: int) -> str:
    """Return the host name by which other pods reach the pod `index` of the task."""
    spec: Mapping[str, Any] = task.template.get("spec") or {}
    return f"{spec.get('hostname') or pod_name(job.name, task.name, index)}.{spec.get('subdomain') or job.name}"


def hosts(job: JobSpec, task: VolcanoTask) -> list[str]:
    """Return the names of all pods of the task, by index."""
    if (task.template.get("spec") or {}).get("hostname"):
        return [host(job, task, 0)] if task.replicas else []
    return [host(job, task, index) for index in range(task.replicas)]


Flags = dict[str, str | int | bool]
_TENSORFLOW: Flags = {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": 2222}
_PYTORCH: Flags = {
    "master": "master",
    "worker": "worker",
    "port": 23456,
    "wait-master-enabled": False,
    "wait-master-timeout": 300,
    "wait-master-image": "busybox:1.36.1",
}
_MPI: Flags = {"master": "master", "worker": "worker", "port": 22}
_HCCL: Flags = {"master": "master", "worker": "worker"}
_RAY: Flags = {
    "head": "head",
    "headContainer": "head",
    "worker": "worker",
    "workerContainer": "worker",
    "port": 6379,
    "dashboardPort": 8265,
    "clientPort": 10001,
}


def tensorflow(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set TF_CONFIG to the hosts of the TensorFlow cluster, and the role and index of this pod."""
    if len(job.tasks) == 1 and job.tasks[0].replicas == 1:
        return
    said = read_flags(arguments, _TENSORFLOW)
    cluster, kind = {}, task.name
    for role in ("ps", "worker", "chief", "evaluator"):
        if (found := job.task(str(said[role]))) is not None:
            cluster[role] = [f"{name}:{said['port']}" for name in hosts(job, found)]
            kind = role if found is task else kind
    told = {"cluster": cluster, "task": {"type": kind, "index": index}}
    _set(pod["spec"]["containers"], {"TF_CONFIG": json.dumps(told, separators=(",", ":"))})


def pytorch(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK."""
    said = read_flags(arguments, _PYTORCH)
    master, worker = job.task(str(said["master"])), job.task(str(said["worker"]))
    if master is None:
        return
    address, port = host(job, master, 0), int(said["port"])
    told = {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
    told["WORLD_SIZE"] = str(master.replicas + (worker.replicas if worker is not None else 0))
    if task is master:
        told["RANK"] = "0"
    elif task is worker:
        told["RANK"] = str(index + 1)
    containers = pod["spec"]["containers"]
    _set(containers, told)
    _open(containers, "pytorchjob-port", port)
    if said["wait-master-enabled"] and task is worker:
        pod["spec"]["initContainers"] = [*(pod["spec"].get("initContainers") or ()), _waiter(said, address, port)]


def _waiter(said: Flags, address: str, port: int) -> Object:
    script = (
        f"for i in $(seq 1 {int(said['wait-master-timeout']) // 2 or 1}); do "
        f"nc -z -w 2 {address} {port} && exit 0; sleep 2; done; exit 1"
    )
    return {"name": "wait-for-master", "image": said["wait-master-image"], "command": ["sh", "-c", script]}


def mpi(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Add the port of ssh to the containers. In the master's pods, set MPI_HOST to the host names of the workers."""
    said = read_flags(arguments, _MPI)
    _open(pod["spec"]["containers"], "mpijob-port", int(said["port"]))
    if task.name == said["master"] and (worker := job.task(str(said["worker"]))) is not None:
        every = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        _set(every, {"MPI_HOST": ",".join(hosts(job, worker))})


def hcclrank(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set the annotation hccl/rankIndex: the RANK of the first container, if it is set; otherwise the position of the
    pod in the list of the master's pods followed by the workers' pods."""
    said = read_flags(arguments, _HCCL)
    master = job.task(str(said["master"]))
    first: Object = next(iter(pod["spec"]["containers"]), {})
    rank = next((one.get("value") for one in first.get("env") or () if one["name"] == "RANK"), None)
    if rank is None and task is master:
        rank = str(index)
    elif rank is None and task.name == said["worker"]:
        rank = str((master.replicas if master is not None else 0) + index)
    if rank is not None:
        pod["metadata"]["annotations"]["hccl/rankIndex"] = rank


def ray(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set the commands of the head and the workers. Raises JobFault if there is no head task."""
    said = read_flags(arguments, _RAY)
    head = job.task(str(said["head"]))
    if head is None:
        raise JobFault(f"the plugin ray needs a task {said['head']!r}, or --head=<its name>")
    if task is head:
        named, command = (
            said["headContainer"],
            (
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={said['port']} "
                f"--dashboard-port={said['dashboardPort']} --ray-client-server-port={said['clientPort']}"
            ),
        )
    elif task.name == said["worker"]:
        named, command = said["workerContainer"], f"ray start --block --address={host(job, head, 0)}:{said['port']}"
    else:
        return
    for container in pod["spec"]["containers"]:
        if container["name"] == named:
            container["command"] = ["sh", "-c", command]
            container.pop("args", None)
            if task is head:
                for name, key in (("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort")):
                    _open([container], name, int(said[key]))


def ray_objects(job: JobSpec, arguments: Sequence[str]) -> Iterator[tuple[Kind, Object]]:
    """Yield the Service of the head."""
    said = read_flags(arguments, _RAY)
    keys = (("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort"))
    ports = [{"name": name, "port": said[key], "targetPort": said[key]} for name, key in keys]
    chosen = {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace, TASK_SPEC: said["head"]}
    yield SERVICES, {"metadata": {"name": f"{job.name}-head-svc"}, "spec": {"selector": chosen, "ports": ports}}


def environment(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    """Set VK_TASK_INDEX and VC_TASK_INDEX in all containers (the plugin `env`)."""
    every = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    _set(every, {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index)})


def _set(containers: Sequence[Object], told: Mapping[str, str]) -> None:
    variables: list[dict[str, object]] = [{"name": name, "value": value} for name, value in told.items()]
    for container in containers:
        container["env"] = [*(container.get("env") or ()), *variables]


def _open(containers: Sequence[Object], name: str, port: int) -> None:
    for container in containers:
        there = container.get("ports") or []
        if not any(one.get("containerPort") == port for one in there):
            container["ports"] = [*there, {"name": name, "containerPort": port}]


_HOME = "/root/.ssh"
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_KEY_DEFAULTS: dict[str, str | int | bool] = {
    "ssh-key-file-path": _HOME,
    "ssh-private-key": "",
    "ssh-public-key": "",
    "ssh-port": 22,
}


def key_pair(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the private and the public key. The keys are read from the plugin's arguments. Without arguments they are
    generated, which takes a tenth of a second or more."""
    said = read_flags(arguments, _KEY_DEFAULTS)
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
    """Return the Secret with the keys, without an owner reference."""
    private, public = pair
    texts = (private, public, public, _config(job, arguments))
    data = {name: base64.b64encode(text.encode()).decode() for name, text in zip(_FILES, texts, strict=True)}
    return {"metadata": {"name": secret_name(job)}, "data": data}


def join_keys(job: JobSpec, pod: Object, arguments: Sequence[str]) -> None:
    """Mount the key in all containers of the pod."""
    path, name = str(read_flags(arguments, _KEY_DEFAULTS)["ssh-key-file-path"]), secret_name(job)
    spec = pod["spec"]
    items = [{"key": file, "path": f".ssh/{file}"} for file in _FILES]
    secret = {"secretName": name, "items": items, "defaultMode": 0o600 if path == _HOME else 0o644}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        mount = {"name": name, "mountPath": path, "subPath": ".ssh"}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "secret": secret}]


def _config(job: JobSpec, arguments: Sequence[str]) -> str:
    port = int(read_flags(arguments, _KEY_DEFAULTS)["ssh-port"])
    port = port if 1 <= port <= 65535 else 22
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        for host in hosts(job, task):
            lines += [f"Host {host.partition('.')[0]}", f"  HostName {host}", f"  Port {port}"]
    return "\n".join(lines) + "\n"


_MOUNT = "/etc/volcano"
_SERVICE_DEFAULTS: dict[str, str | int | bool] = {"publish-not-ready-addresses": False, "disable-network-policy": False}


def service_objects(job: JobSpec, arguments: Sequence[str]) -> Iterator[tuple[Kind, Object]]:
    """Yield the additional objects of the plugin, without owner references."""
    said, own = read_flags(arguments, _SERVICE_DEFAULTS), {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}
    spec: dict[str, Any] = {"clusterIP": "None", "selector": own}
    if said["publish-not-ready-addresses"]:
        spec["publishNotReadyAddresses"] = True
    yield CONFIG_MAPS, {"metadata": {"name": f"{job.name}-svc"}, "data": host_data(job)}
    yield SERVICES, {"metadata": {"name": job.name}, "spec": spec}
    if not said["disable-network-policy"]:
        chosen = {"matchLabels": own}
        rule = {"podSelector": chosen, "ingress": [{"from": [{"podSelector": chosen}]}], "policyTypes": ["Ingress"]}
        yield NETWORK_POLICIES, {"metadata": {"name": job.name}, "spec": rule}


def host_data(job: JobSpec) -> dict[str, str]:
    """Return the data of the ConfigMap."""
    found = {}
    for task in job.tasks:
        name, listed = task.name.replace("-", "_"), hosts(job, task)
        found[f"{name}.host"] = "\n".join(listed)
        found[f"VC_{name.upper()}_HOSTS"] = ",".join(listed)
        found[f"VC_{name.upper()}_NUM"] = str(task.replicas)
    return found


def join_service(job: JobSpec, pod: Object) -> None:
    """Add the pod's host name, the subdomain of the Service, the mounted host files and the environment variables to
    the pod."""
    spec, config = pod["spec"], f"{job.name}-svc"
    if not spec.get("hostname"):
        spec["hostname"] = pod["metadata"]["name"]
    if not spec.get("subdomain"):
        spec["subdomain"] = job.name
    variables = []
    for task in job.tasks:
        name = task.name.replace("-", "_").upper()
        for key in (f"VC_{name}_HOSTS", f"VC_{name}_NUM"):
            variables.append({"name": key, "valueFrom": {"configMapKeyRef": {"name": config, "key": key}}})
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        container["env"] = [*(container.get("env") or ()), *variables]
        mounts = container.get("volumeMounts") or []
        container["volumeMounts"] = [*mounts, {"name": config, "mountPath": _MOUNT}]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": config, "configMap": {"name": config}}]


OnPod = Callable[[JobSpec, VolcanoTask, int, Object, Sequence[str]], None]


def _service(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    join_service(job, pod)


def _keys(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    join_keys(job, pod, arguments)


PLUGINS: Final[dict[str, OnPod]] = {
    "env": environment,
    "svc": _service,
    "ssh": _keys,
    "tensorflow": tensorflow,
    "pytorch": pytorch,
    "mpi": mpi,
    "ray": ray,
    "hcclrank": hcclrank,
}


def apply_plugins(job: JobSpec, task: VolcanoTask, index: int, pod: Object) -> None:
    """Apply all plugins of the job to the pod. Raises JobFault."""
    for name, arguments in job.plugins.items():
        if name not in PLUGINS:
            raise JobFault(f"unable to find job plugin: {name}; there are {', '.join(PLUGINS)}")
        PLUGINS[name](job, task, index, pod, arguments)


def plugin_objects(job: JobSpec) -> Iterator[tuple[Kind, Object]]:
    """Yield the additional objects of the job's plugins. The Secret of `ssh` is not included, because its key must be
    generated first."""
    if "svc" in job.plugins:
        yield from service_objects(job, job.plugins["svc"])
    if "ray" in job.plugins:
        yield from ray_objects(job, job.plugins["ray"])
