"""Validate the whole spec of a pod, in the order in which kube-apiserver reports errors.

`pod_spec` is for pods and pod templates; `new_pod` and `live_pod` check the rules that apply to pods only. Source:
ValidatePodSpec and validatePodMetadataAndSpec of pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.meta import metadata
from phalanx.embedded.apimachinery.meta.status import (
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats, quantity
from phalanx.embedded.apiserver.registry.kinds import checks
from phalanx.embedded.apiserver.registry.kinds.checks import Found, chosen, formatted
from phalanx.embedded.apiserver.registry.kinds.nodes import scheduling
from phalanx.embedded.apiserver.registry.kinds.pods import containers
from phalanx.embedded.apiserver.registry.kinds.pods.volumes import volumes

Spec = Mapping[str, Any]

_encode = msgspec.json.Encoder().encode
_SOUND: set[tuple[bytes, bool]] = set()  # the valid specs: (the spec as JSON, True for a pod or False for a template)
_REMEMBERED, _REMEMBERED_BYTES = 4096, 16 * 1024

_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_BYTES = 253
_SYSCTLS = {"hostNetwork": ("net.",), "hostIPC": ("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")}
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
MAX_INT32 = 2**31 - 1
RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
# Fields of the spec whose values must be DNS subdomains or labels. kube-apiserver checks `activeDeadlineSeconds` after
# the first group and before the second.
EARLY_NAMES = (("serviceAccountName", formats.dns_subdomain), ("nodeName", formats.dns_subdomain))
HOST_NAMES = (("hostname", formats.dns_label), ("subdomain", formats.dns_label))


def template(found: Found, given: Spec, path: str) -> None:
    """Check a `PodTemplateSpec`: its labels, its annotations and its spec."""
    meta = given.get("metadata") or {}
    checks.labels(found, meta.get("labels"), f"{path}.labels")
    if annotations := meta.get("annotations"):
        found += metadata.annotation_causes(annotations, f"{path}.annotations")
        _annotations(found, annotations, given.get("spec") or {}, f"{path}.annotations")
    spec = given.get("spec") or {}
    pod_spec(found, spec, f"{path}.spec", of_pod=False)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        found.append(forbidden_field(f"{path}.spec.ephemeralContainers", text))


def new_pod(found: Found, pod: Spec) -> None:
    """Check a new pod."""
    live_pod(found, pod)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        found.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        found.append(forbidden_field("spec.nodeName", text))


def live_pod(found: Found, pod: Spec) -> None:
    """Check a pod by the rules that apply to new and to existing pods."""
    spec = pod["spec"]
    if annotations := pod["metadata"].get("annotations"):
        _annotations(found, annotations, spec, "metadata.annotations")
    pod_spec(found, spec, "spec", of_pod=True)
    if not spec.get("serviceAccountName"):
        _tokens_need_an_account(found, spec)
    for key in ("containers", "initContainers"):
        for index, one in enumerate(spec.get(key) or ()):
            image = one.get("image", "")
            if image != image.strip():
                text = "must not have leading or trailing whitespace"
                found.append(invalid_value(f"spec.{key}[{index}].image", image, text))


def _annotations(found: Found, annotations: Mapping[str, str], spec: Spec, path: str) -> None:
    if "kubernetes.io/config.mirror" in annotations and not spec.get("nodeName"):
        value = annotations["kubernetes.io/config.mirror"]
        text = "must set spec.nodeName if mirror pod annotation is set"
        found.append(invalid_value(f"{path}[kubernetes.io/config.mirror]", value, text))
    for key, profile in annotations.items():
        if key.startswith(_APP_ARMOR):
            _app_armor(found, key.removeprefix(_APP_ARMOR), profile, spec, f"{path}[{key}]")
    cost = annotations.get("controller.kubernetes.io/pod-deletion-cost")
    if cost is not None and not _is_int32(cost):
        key = "controller.kubernetes.io/pod-deletion-cost"
        found.append(invalid_value(f"{path}[{key}]", cost, "must be a 32bit integer"))


def _app_armor(found: Found, container: str, profile: str, spec: Spec, path: str) -> None:
    every = [one for key in ("containers", "initContainers", "ephemeralContainers") for one in spec.get(key) or ()]
    if container not in [one.get("name") for one in every]:
        found.append(invalid_value(path, container, "container not found"))
    elif profile not in ("", "runtime/default", "unconfined") and not profile.startswith("localhost/"):
        found.append(invalid_value(path, profile, f'invalid AppArmor profile name: "{profile}"'))


def _is_int32(text: str) -> bool:
    try:
        return -(2**31) <= int(text) <= MAX_INT32 and text[0] != "+" and (text == "0" or text.lstrip("-")[0] != "0")
    except (ValueError, IndexError):
        return False


def _tokens_need_an_account(found: Found, spec: Spec) -> None:
    for index, volume in enumerate(spec.get("volumes", ())):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                found.append(forbidden_field(path, "must not be specified when serviceAccountName is not set"))


def pod_spec(found: Found, spec: Spec, path: str, *, of_pod: bool) -> None:
    """Check the `PodSpec` of a pod or of a template. A valid spec is remembered and not checked again. The same spec
    occurs often: in the pods of one template, and at each write of a Job."""
    content = (_encode(spec), of_pod)
    if content in _SOUND:
        return
    before = len(found)
    _check(found, spec, path, of_pod=of_pod)
    if len(found) == before and len(content[0]) <= _REMEMBERED_BYTES:
        if len(_SOUND) >= _REMEMBERED:
            _SOUND.clear()
        _SOUND.add(content)


def _check(found: Found, spec: Spec, path: str, *, of_pod: bool) -> None:
    if spec.get("terminationGracePeriodSeconds") is None:
        found.append(required(f"{path}.terminationGracePeriodSeconds"))
    mountable = volumes(found, spec["volumes"], f"{path}.volumes") if "volumes" in spec else {}
    if "resourceClaims" in spec:
        _resource_claims(found, spec["resourceClaims"], f"{path}.resourceClaims")
    regular = spec.get("containers") or ()
    containers.containers(found, regular, mountable, spec, f"{path}.containers")
    if early := spec.get("initContainers"):
        containers.init_containers(found, early, regular, mountable, spec, f"{path}.initContainers")
    if late := spec.get("ephemeralContainers"):
        others = (*regular, *(spec.get("initContainers") or ()))
        containers.ephemeral_containers(found, late, others, mountable, spec, f"{path}.ephemeralContainers")
    if spec.get("resources"):
        checks.requirements(found, spec["resources"], f"{path}.resources")
        _pod_requests(found, spec, f"{path}.resources.requests")
    if spec.get("hostNetwork"):
        _host_network(found, spec, path, of_pod=of_pod)
    chosen(found, f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES)
    chosen(found, f"{path}.dnsPolicy", spec.get("dnsPolicy"), DNS_POLICIES)
    if "nodeSelector" in spec:
        checks.labels(found, spec["nodeSelector"], f"{path}.nodeSelector")
    _security(found, spec.get("securityContext") or {}, spec, f"{path}.securityContext")
    scheduling.affinity(found, spec.get("affinity"), f"{path}.affinity")
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        _dns_config(found, spec.get("dnsConfig"), spec.get("dnsPolicy", ""), f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates", ())):
        here = f"{path}.readinessGates[{index}].conditionType"
        formatted(found, here, gate.get("conditionType", ""), formats.qualified_name)
    scheduling.gates(found, spec.get("schedulingGates", ()), f"{path}.schedulingGates")
    spread = spec.get("topologySpreadConstraints", ())
    scheduling.spread_constraints(found, spread, f"{path}.topologySpreadConstraints")
    if spec.get("hostUsers") is False:
        _host_users(found, spec, path)
    _names_and_deadline(found, spec, path)
    scheduling.tolerations(found, spec.get("tolerations", ()), f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases", ())):
        formatted(found, f"{path}.hostAliases[{index}].ip", alias.get("ip", ""), formats.ip)
        for number, name in enumerate(alias.get("hostnames", ())):
            formatted(found, f"{path}.hostAliases[{index}].hostnames[{number}]", name, formats.dns_subdomain)
    _classes(found, spec, path)
    group = spec.get("schedulingGroup") or {}
    if name := group.get("podGroupName"):
        formatted(found, f"{path}.schedulingGroup.podGroupName", name, formats.dns_subdomain)


def _pod_requests(found: Found, spec: Spec, path: str) -> None:
    """Check that the requests of the whole pod are not lower than the sum of its containers' requests."""
    parts = checks.total(spec, "requests")
    for name, given in sorted((spec["resources"].get("requests") or {}).items()):
        if name in parts and quantity.of(given) < quantity.of(parts[name]):
            text = f"must be greater than or equal to aggregate container requests of {parts[name]}"
            found.append(invalid_value(f"{path}[{name}]", given, text))


def _resource_claims(found: Found, claims: Sequence[Spec], path: str) -> None:
    """Check the claims of devices (DRA): each name must occur once, and each claim must name either a ResourceClaim or
    a template."""
    names: set[str] = set()
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            found.append(required(f"{here}.name"))
        elif name in names:
            found.append(duplicate(f"{here}.name", name))
        else:
            formatted(found, f"{here}.name", name, formats.dns_label)
        names.add(name)
        given = [key for key in sources if claim.get(key) is not None]
        if len(given) != 1:
            shown = {"Name": name} | {key[0].upper() + key[1:]: claim.get(key) for key in sources}
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            if not given:
                text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            found.append(invalid_value(here, shown, text))
        for key in given:
            formatted(found, f"{here}.{key}", claim[key], formats.dns_subdomain)


def _host_network(found: Found, spec: Spec, path: str, *, of_pod: bool) -> None:
    for index, one in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(one.get("ports", ())):
            host = port.get("hostPort", 0)
            if (of_pod or host) and host != port.get("containerPort", 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                found.append(invalid_value(f"{path}.containers[{index}].ports[{number}].hostPort", host, text))


def _host_users(found: Found, spec: Spec, path: str) -> None:
    for key, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(key):
            found.append(forbidden_field(f"{path}.{shown}", "when `pod.Spec.HostUsers` is false"))


def _security(found: Found, given: Spec, spec: Spec, path: str) -> None:
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        if (number := given.get(key)) is not None and not 0 <= number <= MAX_INT32:
            found.append(invalid_value(f"{path}.{key}", number, formats.range_error(0, MAX_INT32)))
    for index, number in enumerate(given.get("supplementalGroups", ())):
        if not 0 <= number <= MAX_INT32:
            text = formats.range_error(0, MAX_INT32)
            found.append(invalid_value(f"{path}.supplementalGroups[{index}]", number, text))
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(invalid_value(f"{path}.shareProcessNamespace", True, text))
    for index, one in enumerate(given.get("sysctls", ())):
        known = [other.get("name") for other in given["sysctls"][:index]]
        _sysctl(found, one.get("name", ""), known, spec, f"{path}.sysctls[{index}].name")
    policy = given.get("fsGroupChangePolicy")
    if policy is not None and policy not in ("Always", "OnRootMismatch"):
        found.append(not_supported(f"{path}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch")))
    containers.seccomp(found, given.get("seccompProfile"), f"{path}.seccompProfile")
    containers.app_armor(found, given.get("appArmorProfile"), f"{path}.appArmorProfile")


def _sysctl(found: Found, name: str, known: Sequence[str], spec: Spec, path: str) -> None:
    """Check the name of a kernel setting (sysctl). Settings of a kernel namespace that the pod shares with its node are
    forbidden."""
    if not name:
        found.append(required(path))
    elif len(name) > _SYSCTL_BYTES or not re.fullmatch(_SYSCTL, name):
        text = f"must have at most {_SYSCTL_BYTES} characters and match regex ^{_SYSCTL}$"
        found.append(invalid_value(path, name, text))
    elif name in known:
        found.append(duplicate(path, name))
    dotted = name.replace("/", ".")
    for key, prefixes in _SYSCTLS.items():
        if spec.get(key) and dotted.startswith(prefixes):
            found.append(invalid_value(path, name, f"may not be specified when '{key}' is true"))


def _dns_config(found: Found, config: Spec | None, policy: str, path: str) -> None:
    if policy == "None":
        if config is None:
            found.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            found.append(required(f"{path}.nameservers", text))
            return
    servers, searches = (config or {}).get("nameservers", []), (config or {}).get("searches", [])
    if len(servers) > 3:
        found.append(invalid_value(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        formatted(found, f"{path}.nameservers[{index}]", server, formats.ip)
    if len(searches) > 32:
        found.append(invalid_value(f"{path}.searches", searches, "must not have more than 32 search paths"))
    for index, search in enumerate(searches):
        if search != ".":
            formatted(found, f"{path}.searches[{index}]", search.removesuffix("."), formats.search_domain)
    for index, option in enumerate((config or {}).get("options", ())):
        if not option.get("name"):
            found.append(required(f"{path}.options[{index}]", "must not be empty"))


def _names_and_deadline(found: Found, spec: Spec, path: str) -> None:
    for key, form in EARLY_NAMES:
        if name := spec.get(key):
            formatted(found, f"{path}.{key}", name, form)
    deadline_s = spec.get("activeDeadlineSeconds")
    if deadline_s is not None and not 1 <= deadline_s <= MAX_INT32:
        text = formats.range_error(1, MAX_INT32)
        found.append(invalid_value(f"{path}.activeDeadlineSeconds", deadline_s, text))
    for key, form in HOST_NAMES:
        if name := spec.get(key):
            formatted(found, f"{path}.{key}", name, form)


def _classes(found: Found, spec: Spec, path: str) -> None:
    for key in ("priorityClassName", "runtimeClassName"):
        if name := spec.get(key):
            formatted(found, f"{path}.{key}", name, formats.dns_subdomain)
    if (policy := spec.get("preemptionPolicy")) is not None:
        chosen(found, f"{path}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if overhead := spec.get("overhead"):
        checks.requirements(found, {"limits": overhead}, f"{path}.overhead")
    if (system := spec.get("os")) is not None:
        name = system.get("name", "")
        if not name:
            found.append(required(f"{path}.os.name"))
        elif name not in ("linux", "windows"):
            found.append(not_supported(f"{path}.os", name, ("linux", "windows")))
