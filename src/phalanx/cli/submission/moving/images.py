"""Replace the image `host` (programs of this machine) by an image that the target of a move can run."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.client.connection import Object
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import ASK, KEY, TOOLS_PATH
from phalanx.slurm.submission.creation import daemon
from phalanx.slurm.submission.manifest import HOST, bring_tools

_DAEMON = "PHALANX_PYTHON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The image and the directories that pods of the image `host` get at the target. `image`: the new image; "" if the
    user named none. `mounts`: directories that all nodes of the target have at the same path; they are mounted into the
    pods with the new image. `owners`: namespace -> (uid, gid) of its pods on this machine; the key "" has the ids for
    all other namespaces. `site`: the Slurm settings of the target, which may name an image with Slurm's commands."""

    image: str = ""
    mounts: Sequence[str] = ()
    owners: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    site: Site

    def apply(self, obj: Object) -> None:
        """Change the pod templates of a job in which a container has the image `host`."""
        meta = obj["metadata"]
        slurm = ASK in (meta.get("annotations") or {})
        for pod in pod_specs(obj["spec"]):
            replaced = [one for one in _containers(pod) if _is_host(one)]
            if replaced:
                self._run_as_owner(pod, meta.get("namespace", ""))
            for container in replaced:
                container["image"] = self.image
                mounted = [{"name": f"shared-{at}", "mountPath": path} for at, path in enumerate(self.mounts)]
                if mounted:
                    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounted]
            if replaced and self.mounts:
                shared = [{"name": f"shared-{at}", "hostPath": {"path": path}} for at, path in enumerate(self.mounts)]
                pod["volumes"] = [*(pod.get("volumes") or ()), *shared]
            if replaced and slurm and self.site.tools:
                bring_tools(pod, self.site.tools)

    def _run_as_owner(self, pod: Object, namespace: str) -> None:
        """Let the pod run with the Unix ids that its user has on this machine. As root, the pod could write into the
        home directories of all users."""
        owner = self.owners.get(namespace) or self.owners.get("")
        if owner is not None:
            ids = {"runAsUser": owner[0], "runAsGroup": owner[1]}
            pod["securityContext"] = {**ids, **(pod.get("securityContext") or {})}

    def environment(self, data: Object) -> Object:
        """Return the data (in base64) of the Secret of a Slurm job, changed so that the job starts the step daemon of
        the new image instead of the one of this machine."""
        if not self.image or _DAEMON not in data:
            return data
        kept = {name: value for name, value in data.items() if name not in {_DAEMON, TOOLS_PATH}}
        found = daemon(self.site, self.image, "")
        return kept | {name: b64encode(text.encode()).decode() for name, text in found.items() if name != KEY}


def runs_on_host(obj: Object) -> bool:
    """Return True if a container of the job has the image `host`, and so runs programs of the machine."""
    return any(_is_host(one) for pod in pod_specs(obj["spec"]) for one in _containers(pod))


def host_paths(obj: Object) -> set[str]:
    """Return the directories of the node that the pods of a job mount."""
    volumes = [one for pod in pod_specs(obj["spec"]) for one in pod.get("volumes") or ()]
    return {one["hostPath"]["path"] for one in volumes if one.get("hostPath")}


def claims(obj: Object) -> set[str]:
    """Return the names of the PersistentVolumeClaims that the pods of a job mount."""
    volumes = [one for pod in pod_specs(obj["spec"]) for one in pod.get("volumes") or ()]
    return {one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim")}


def pod_specs(value: object) -> Iterator[Object]:
    """Yield all pod specs in the spec of a job of any kind."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
            return
        for part in value.values():
            yield from pod_specs(part)
    elif isinstance(value, list):
        for part in value:
            yield from pod_specs(part)


def _containers(pod: Object) -> Iterator[Object]:
    for part in ("initContainers", "containers"):
        yield from pod.get(part) or ()


def _is_host(container: Object) -> bool:
    return str(container.get("image", "")).partition(":")[0] == HOST
