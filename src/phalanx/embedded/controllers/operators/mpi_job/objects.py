"""Build the objects of an MPIJob: the launcher Job, the worker pods, a ConfigMap with the list of hosts, a Secret with
an SSH key, and a Service for the host names.

Names, labels, paths and variables are the same as those of the operator, so that images and scripts for the operator
work unchanged.

Source: kubeflow/mpi-operator caa3c47f, pkg/controller/mpi_job_controller.go.

The module also builds the remote shell of mpirun: a key pair for ssh and, if pods are processes of this machine, a
replacement for ssh.

In a container with the image `host` no sshd runs. If such a container sets no command, it runs the server of
`remote_shell`. The program of `remote_shell` is in the job's ConfigMap, and its token is in the job's Secret.
Environment variables make mpirun use this program as its remote shell."""

from __future__ import annotations

import base64
import copy
import secrets
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.job_set.jobs import owner

CONFIG_AT: Final = "/etc/mpi"
SSH_AT: Final = "/root/.ssh"
_HOST, _AGENT, _TOKEN = "host", "remote_shell", "rsh-token"
_KEYS = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))
# the keys of the Secret, and the file names under which ssh reads them
KEY_ITEMS: Final = tuple({"key": key, "path": path} for key, path in _KEYS)
SERVES: Final = ("python3", f"{CONFIG_AT}/{_AGENT}.py", "serve")

# Every pod is a process of this machine with its own address on the loopback interface. So mpirun treats the pods as
# different hosts, although ssh is not used.
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
    """Return the data of a job's Secret: a new key pair, and a new token for containers without sshd."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    data = {"ssh-privatekey": private, "ssh-publickey": public, _TOKEN: secrets.token_hex(32).encode()}
    return {name: base64.b64encode(text).decode() for name, text in data.items()}


def programs() -> dict[str, str]:
    """Return the files of the program that replaces ssh, for a ConfigMap that is mounted at CONFIG_AT with mode
    0555."""
    program = resources.files(__package__ or "").joinpath(f"{_AGENT}.py").read_text()
    return {f"{_AGENT}.py": program, _AGENT: f'#!/bin/sh\nexec python3 {CONFIG_AT}/{_AGENT}.py "$@"\n'}


def variables(secret: str) -> list[Object]:
    """Return the environment variables that the program `remote_shell` reads. `secret`: the name of the job's
    Secret."""
    token = {"secretKeyRef": {"name": secret, "key": _TOKEN}}
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [{"name": "MPI_RSH_TOKEN", "valueFrom": token}, {"name": "MPI_RSH_ADDRESS", "valueFrom": address}]


OPERATOR: Final = "kubeflow.org/mpi-operator"  # the value of managedBy
COMPONENT: Final = "mpi-job-controller"
_GROUP = "training.kubeflow.org"
JOB, ROLE, INDEX = f"{_GROUP}/job-name", f"{_GROUP}/job-role", f"{_GROUP}/replica-index"
MOST_WORKERS = 10_000
_SLOTS = {"OpenMPI": " slots={}", "Intel": ":{}", "MPICH": ":{}"}


def replica(job: Object, role: str) -> Mapping[str, Any]:
    """Return the spec of a role; empty if the job does not have the role."""
    found: Mapping[str, Any] = (job["spec"].get("mpiReplicaSpecs") or {}).get(role) or {}
    return found


def worker_count(job: Object) -> int:
    """Return the number of workers of the job. Raises ValueError if there are more than `MOST_WORKERS`."""
    said = replica(job, "Worker")
    found = 0 if not said else 1 if said.get("replicas") is None else int(said["replicas"])
    if found > MOST_WORKERS:
        raise ValueError(f"{found} workers, but at most {MOST_WORKERS} are allowed")
    return found


def labels(job: Object, role: str) -> dict[str, str]:
    """Return the labels of the pods of a role."""
    own = {f"{_GROUP}/operator-name": "mpi-operator", JOB: job["metadata"]["name"], ROLE: role}
    return own | {f"{_GROUP}/replica-type": role}


def launcher_name(job: Object) -> str:
    return f"{job['metadata']['name']}-launcher"


def worker_name(job: Object, index: int) -> str:
    return f"{job['metadata']['name']}-worker-{index}"


def hosts(job: Object) -> list[str]:
    """Return the host names of the pods in which ranks run: the launcher (if it runs ranks), and then all workers."""
    meta = job["metadata"]
    names = [worker_name(job, index) for index in range(worker_count(job))]
    first = [launcher_name(job)] if job["spec"].get("runLauncherAsWorker") else []
    return [f"{name}.{meta['name']}.{meta['namespace']}.svc" for name in (*first, *names)]


def config(job: Object, running: Iterable[str]) -> dict[str, str]:
    """Return the data of the job's ConfigMap. `running`: the names of the running pods, which discover_hosts.sh
    prints."""
    slots, kind = int(job["spec"].get("slotsPerWorker") or 1), str(job["spec"].get("mpiImplementation") or "OpenMPI")
    known, there = hosts(job), set(running)
    hostfile = "".join(f"{name}{_SLOTS[kind].format(slots)}\n" for name in known)
    found = [name for name in known if name.partition(".")[0] in there or name.startswith(f"{launcher_name(job)}.")]
    script = "#!/bin/sh\n" + "".join(f"echo {name}:{slots}\n" for name in found)
    return {"hostfile": hostfile, "discover_hosts.sh": script} | (programs() if _on_this_machine(job) else {})


def make_config(job: Object, data: Mapping[str, str]) -> Object:
    """Return the ConfigMap that is mounted at /etc/mpi."""
    return _object(job, "ConfigMap", config_name(job), data=dict(data))


def config_name(job: Object) -> str:
    return f"{job['metadata']['name']}-config"


def make_secret(job: Object) -> Object:
    """Return the Secret with the job's own key pair, and with a token if the job is configured to run without sshd."""
    return _object(job, "Secret", secret_name(job), type="kubernetes.io/ssh-auth", data=secret_data())


def secret_name(job: Object) -> str:
    return f"{job['metadata']['name']}-ssh"


def make_service(job: Object) -> Object:
    """Return the headless Service that gives the job's pods their host names."""
    name = job["metadata"]["name"]
    selector = {f"{_GROUP}/operator-name": "mpi-operator", JOB: name}
    return _object(
        job, "Service", name, spec={"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    )


def make_worker(job: Object, index: int) -> Object:
    """Return the pod of a worker."""
    said, name = replica(job, "Worker"), worker_name(job, index)
    meta, spec = _pod(job, said, "worker", name)
    spec["restartPolicy"] = _restart_policy(said, "Never")
    container = spec["containers"][0]
    if not container.get("command") and not container.get("args"):
        container["command"] = [*SERVES] if on_this_machine(container) else ["/usr/sbin/sshd", "-De"]
    _add_env(container, {"K_MPI_JOB_ROLE": "worker"})
    _mount(job, spec, container, with_config=on_this_machine(container))
    metadata = {**meta, "name": name, "ownerReferences": [owner(job)]}
    metadata["labels"] = {**metadata["labels"], INDEX: str(index + bool(job["spec"].get("runLauncherAsWorker")))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def make_launcher(job: Object) -> Object:
    """Return the Job of the launcher. It is suspended if the MPIJob is suspended."""
    policy = job["spec"].get("runPolicy") or {}
    passed = {name: policy[name] for name in ("backoffLimit", "activeDeadlineSeconds") if policy.get(name) is not None}
    spec = {**passed, "suspend": bool(policy.get("suspend")), "template": launcher_template(job)}
    return _object(job, "Job", launcher_name(job), api_version="batch/v1", spec=spec)


def launcher_template(job: Object) -> Object:
    """Return the template of the launcher's pods."""
    said = replica(job, "Launcher")
    meta, spec = _pod(job, said, "launcher", launcher_name(job))
    spec["restartPolicy"] = _restart_policy(said, "OnFailure")
    container = spec["containers"][0]
    _add_env(container, {"K_MPI_JOB_ROLE": "launcher", **_mpi_env(job)})
    if not job["spec"].get("runLauncherAsWorker"):
        _add_env(container, {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""})
    _mount(job, spec, container, with_config=True)
    return {"metadata": meta, "spec": spec}


# --- internal ---------------------------------------------------------------------------------------------------------


def _object(job: Object, kind: str, name: str, *, api_version: str = "v1", **parts: object) -> Object:
    meta = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": {"app": job["metadata"]["name"]},
        "ownerReferences": [owner(job)],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **parts}


def _pod(job: Object, said: Mapping[str, Any], role: str, name: str) -> tuple[Object, Object]:
    template = copy.deepcopy(said.get("template") or {})
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    if not spec.get("containers"):
        raise ValueError(f"the template of {role} has no container")
    spec |= {"hostname": name, "subdomain": job["metadata"]["name"]}
    found = {"labels": {**(meta.get("labels") or {}), **labels(job, role)}}
    return (found | ({"annotations": meta["annotations"]} if meta.get("annotations") else {})), spec


def _restart_policy(said: Mapping[str, object], default: str) -> str:
    policy = str(said.get("restartPolicy") or default)
    return "Never" if policy == "ExitCode" else policy


def _mpi_env(job: Object) -> dict[str, str]:
    slots, hostfile = str(job["spec"].get("slotsPerWorker") or 1), f"{CONFIG_AT}/hostfile"
    match job["spec"].get("mpiImplementation") or "OpenMPI":
        case "Intel":
            return {"I_MPI_HYDRA_HOST_FILE": hostfile, "I_MPI_PERHOST": slots}
        case "MPICH":
            return {"HYDRA_HOST_FILE": hostfile}
        case _:
            found = {
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_orte_default_hostfile": hostfile,
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
                "OMPI_MCA_orte_set_default_slots": slots,
            }
            return found | SINGLE_MACHINE if _on_this_machine(job) else found


def _on_this_machine(job: Object) -> bool:
    pods = ((replica(job, role).get("template") or {}).get("spec") or {} for role in ("Launcher", "Worker"))
    return any(on_this_machine((one.get("containers") or [{}])[0]) for one in pods)


def _add_env(container: Object, values: Mapping[str, str]) -> None:
    """Add environment variables before the container's own ones. If two variables have the same name, the later
    variable applies."""
    container["env"] = [
        *({"name": name, "value": text} for name, text in values.items()),
        *(container.get("env") or ()),
    ]


def _mount(job: Object, spec: Object, container: Object, *, with_config: bool) -> None:
    """Mount the key at the path where ssh reads keys. With `with_config`, also mount the list of hosts."""
    key = {"secretName": secret_name(job), "defaultMode": 0o600, "items": [*KEY_ITEMS]}
    volumes: list[Object] = [{"name": "ssh-auth", "secret": key}]
    mounts: list[Object] = [{"name": "ssh-auth", "mountPath": job["spec"].get("sshAuthMountPath") or SSH_AT}]
    # in such a container, /root/.ssh is this machine's own folder, which must not be changed
    if on_this_machine(container):
        volumes, mounts = [], []
        container["env"] = [*variables(secret_name(job)), *container["env"]]
    if with_config:
        volumes.append({"name": "mpi-job-config", "configMap": {"name": config_name(job), "defaultMode": 0o555}})
        mounts.append({"name": "mpi-job-config", "mountPath": CONFIG_AT})
    spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
