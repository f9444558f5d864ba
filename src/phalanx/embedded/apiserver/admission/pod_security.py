"""Pod Security admission: the labels of a namespace determine which pods it accepts.

With the label `pod-security.kubernetes.io/enforce`, the server refuses pods that violate a level. With `.../warn`, it
responds with a warning, both for pods and for objects that create pods (such as Jobs). The levels are `privileged`
(everything is allowed), `baseline` and `restricted`. The labels may also name a Kubernetes version
(`.../enforce-version`); the server always applies the newest version of a level. Source:
k8s.io/pod-security-admission/policy, checks and messages; the Pod Security Standards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import forbidden
from phalanx.embedded.apiserver.admission.chain import Reader

Spec = Mapping[str, Any]
Check = Callable[[Spec], str]

PREFIX = "pod-security.kubernetes.io/"
TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): ("spec",),
    ("", "podtemplates"): ("template", "spec"),
    ("", "replicationcontrollers"): ("spec", "template", "spec"),
    ("apps", "daemonsets"): ("spec", "template", "spec"),
    ("apps", "deployments"): ("spec", "template", "spec"),
    ("apps", "replicasets"): ("spec", "template", "spec"),
    ("apps", "statefulsets"): ("spec", "template", "spec"),
    ("batch", "jobs"): ("spec", "template", "spec"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template", "spec"),
}
DEFAULT_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
SAFE_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
        *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    }
)
SAFE_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"),
        *("secret", "image"),
    }
)


def review(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> list[str]:
    """Return the warnings about a pod or a pod template. Raises StatusError 403 for a pod that its namespace does not
    accept."""
    path = TEMPLATES.get(resource.key)
    namespace = obj["metadata"].get("namespace", "")
    home = reader.get("", "namespaces", "", namespace) if path else None
    labels = ((home or {}).get("metadata") or {}).get("labels") or {}
    levels = {mode: labels.get(f"{PREFIX}{mode}", "privileged") for mode in ("enforce", "warn")}
    if path is None or set(levels.values()) == {"privileged"}:
        return []
    spec = _at(obj, path)
    if old is not None and spec == _at(old, path):
        return []
    if resource.key == ("", "pods") and (broken := violations(spec, levels["enforce"])):
        why = f'violates PodSecurity "{levels["enforce"]}:latest": {", ".join(broken)}'
        raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)
    if broken := violations(spec, levels["warn"]):
        return [f'would violate PodSecurity "{levels["warn"]}:latest": {", ".join(broken)}']
    return []


def _at(obj: Object, path: tuple[str, ...]) -> Spec:
    found: Any = obj
    for key in path:
        found = found.get(key) or {}
    return found if isinstance(found, Mapping) else {}


def violations(spec: Spec, level: str) -> list[str]:
    """Return a text for each check of the level that the spec of the pod violates."""
    checks = {"baseline": BASELINE, "restricted": RESTRICTED}.get(level, ())
    return [text for check in checks if (text := check(spec))]


def _containers(spec: Spec) -> Iterator[Spec]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(key) or ()


def _security(holder: Spec) -> Spec:
    found: Spec = holder.get("securityContext") or {}
    return found


def _named(sort: str, names: list[str]) -> str:
    """Return the names as text: `container "a"`, `containers "a", "b"`."""
    listed = ", ".join(f'"{name}"' for name in names)
    return f"{sort} {listed}" if len(names) == 1 else f"{sort}s {listed}"


def _of_containers(spec: Spec, reason: str, rule: str, is_wrong: Callable[[Spec], bool]) -> str:
    """Find the containers whose security context violates the rule. Return the text of a violation that names these
    containers; "" if there are none."""
    names = [one.get("name", "") for one in _containers(spec) if is_wrong(_security(one))]
    return f"{reason} ({_named('container', names)} {rule})" if names else ""


# --- baseline --------------------------------------------------------------------------------------------------------


def _capabilities(spec: Spec) -> str:
    names, added = [], set()
    for one in _containers(spec):
        extra = set((_security(one).get("capabilities") or {}).get("add") or ()) - DEFAULT_CAPABILITIES
        if extra:
            names.append(one.get("name", ""))
            added |= extra
    if not names:
        return ""
    listed = ", ".join(f'"{name}"' for name in sorted(added))
    rule = f"must not include {listed} in securityContext.capabilities.add"
    return f"non-default capabilities ({_named('container', names)} {rule})"


def _host_namespaces(spec: Spec) -> str:
    shared = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    return f"host namespaces ({', '.join(shared)})" if shared else ""


def _host_paths(spec: Spec) -> str:
    names = [one.get("name", "") for one in spec.get("volumes") or () if "hostPath" in one]
    return f"hostPath volumes ({_named('volume', names)})" if names else ""


def _host_ports(spec: Spec) -> str:
    names, ports = [], []
    for one in _containers(spec):
        own = [str(port["hostPort"]) for port in one.get("ports") or () if port.get("hostPort")]
        if own:
            names.append(one.get("name", ""))
            ports += own
    if not names:
        return ""
    verb, noun = ("uses" if len(names) == 1 else "use"), ("hostPort" if len(ports) == 1 else "hostPorts")
    return f"hostPort ({_named('container', names)} {verb} {noun} {', '.join(sorted(ports))})"


def _privileged(spec: Spec) -> str:
    rule = "must not set securityContext.privileged=true"
    return _of_containers(spec, "privileged", rule, lambda one: bool(one.get("privileged")))


def _proc_mount(spec: Spec) -> str:
    rule = 'must not set securityContext.procMount to "Unmasked"'
    return _of_containers(spec, "procMount", rule, lambda one: one.get("procMount") not in (None, "Default"))


def _seccomp_off(spec: Spec) -> str:
    rule = 'must not set securityContext.seccompProfile.type to "Unconfined"'
    if (_security(spec).get("seccompProfile") or {}).get("type") == "Unconfined":
        return f"seccompProfile (pod {rule})"
    return _of_containers(
        spec, "seccompProfile", rule, lambda one: (one.get("seccompProfile") or {}).get("type") == "Unconfined"
    )


def _sysctls(spec: Spec) -> str:
    names = [one.get("name", "") for one in _security(spec).get("sysctls") or ()]
    unsafe = [name for name in names if name not in SAFE_SYSCTLS]
    return f"forbidden sysctls ({', '.join(unsafe)})" if unsafe else ""


def _windows_host_process(spec: Spec) -> str:
    rule = "must not set securityContext.windowsOptions.hostProcess=true"
    if (_security(spec).get("windowsOptions") or {}).get("hostProcess"):
        return f"hostProcess (pod {rule})"
    return _of_containers(
        spec, "hostProcess", rule, lambda one: bool((one.get("windowsOptions") or {}).get("hostProcess"))
    )


# --- restricted ------------------------------------------------------------------------------------------------------


def _escalation(spec: Spec) -> str:
    rule = "must set securityContext.allowPrivilegeEscalation=false"
    reason = "allowPrivilegeEscalation != false"
    return _of_containers(spec, reason, rule, lambda one: one.get("allowPrivilegeEscalation") is not False)


def _drop_all(spec: Spec) -> str:
    def keeps(one: Spec) -> bool:
        return "ALL" not in ((one.get("capabilities") or {}).get("drop") or ())

    def adds(one: Spec) -> bool:
        return bool(set((one.get("capabilities") or {}).get("add") or ()) - {"NET_BIND_SERVICE"})

    keeping = [one.get("name", "") for one in _containers(spec) if keeps(_security(one))]
    adding = [one.get("name", "") for one in _containers(spec) if adds(_security(one))]
    parts = []
    if keeping:
        parts.append(f'{_named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        extra = {
            name
            for one in _containers(spec)
            for name in (_security(one).get("capabilities") or {}).get("add") or ()
            if name != "NET_BIND_SERVICE"
        }
        listed = ", ".join(f'"{name}"' for name in sorted(extra))
        parts.append(f"{_named('container', adding)} must not include {listed} in securityContext.capabilities.add")
    return f"unrestricted capabilities ({'; '.join(parts)})" if parts else ""


def _volumes(spec: Spec) -> str:
    sorts: dict[str, None] = {}
    names = []
    for volume in spec.get("volumes") or ():
        for sort in (key for key in volume if key != "name" and key not in SAFE_VOLUMES):
            names.append(volume.get("name", ""))
            sorts[sort] = None
    if not names:
        return ""
    verb = "uses restricted volume type" if len(names) == 1 else "use restricted volume type"
    listed = ", ".join(f'"{sort}"' for sort in sorts)
    return f"restricted volume types ({_named('volume', names)} {verb}{'' if len(sorts) == 1 else 's'} {listed})"


def _non_root(spec: Spec) -> str:
    rule = "must set securityContext.runAsNonRoot=true"
    pod = _security(spec).get("runAsNonRoot")
    if pod is False:
        return "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"
    bad = [one.get("name", "") for one in _containers(spec) if _security(one).get("runAsNonRoot") is False]
    if bad:
        return f"runAsNonRoot != true ({_named('container', bad)} must not set securityContext.runAsNonRoot=false)"
    silent = [one.get("name", "") for one in _containers(spec) if _security(one).get("runAsNonRoot") is None]
    if pod or not silent:
        return ""
    return f"runAsNonRoot != true (pod or {_named('container', silent)} {rule})"


def _root_user(spec: Spec) -> str:
    if _security(spec).get("runAsUser") == 0:
        return "runAsUser=0 (pod must not set runAsUser=0)"
    return _of_containers(spec, "runAsUser=0", "must not set runAsUser=0", lambda one: one.get("runAsUser") == 0)


def _seccomp_on(spec: Spec) -> str:
    if off := _seccomp_off(spec):
        return off
    if (_security(spec).get("seccompProfile") or {}).get("type"):
        return ""
    silent = [one.get("name", "") for one in _containers(spec) if not _security(one).get("seccompProfile")]
    rule = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return f"seccompProfile (pod or {_named('container', silent)} {rule})" if silent else ""


# The checks are ordered by their names, because kube-apiserver's messages list violations in this order.
BASELINE: tuple[Check, ...] = (
    *(_capabilities, _host_namespaces, _host_paths, _host_ports, _privileged, _proc_mount, _seccomp_off, _sysctls),
    _windows_host_process,
)
RESTRICTED: tuple[Check, ...] = (
    *(_escalation, _drop_all, _host_namespaces, _host_ports, _privileged, _proc_mount, _volumes, _non_root),
    *(_root_user, _seccomp_on, _sysctls, _windows_host_process),
)
