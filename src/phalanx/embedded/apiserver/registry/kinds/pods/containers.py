"""Validate the containers of a pod or a template: names, images, ports, environment, mounts, probes and resources.

Source: validateContainers, validateInitContainers and validateContainerCommon of pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.status import (
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, chosen, complain, formatted, requirements
from phalanx.embedded.apiserver.registry.kinds.pods import probes

Container = Mapping[str, Any]
Volumes = Mapping[str, Mapping[str, Any]]

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
RESOURCE_FIELDS = tuple(
    f"{which}.{name}" for which in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
NOT_EPHEMERAL = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy")
PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
ONE_SOURCE = "may not have more than one field specified at a time"
_SUBSCRIPTED = re.compile(r"(.*)\['(.*)'\]")


def containers(found: Found, given: Sequence[Container], volumes: Volumes, spec: Container, path: str) -> None:
    """Check the regular containers, of which there must be at least one."""
    if not given:
        found.append(required(path))
        return
    grace, restart = spec.get("terminationGracePeriodSeconds"), spec.get("restartPolicy", "")
    names: set[str] = set()
    for index, one in enumerate(given):
        here = f"{path}[{index}]"
        container(found, one, volumes, restart, here)
        name = one.get("name", "")
        if name in names:
            found.append(duplicate(f"{here}.name", name))
        names.add(name)
        probes.all_of(found, one, grace, here)
        _restart_policy(found, one.get("restartPolicy"), here)
    _host_ports(found, given, path)


def init_containers(
    found: Found, given: Sequence[Container], others: Sequence[Container], volumes: Volumes, spec: Container, path: str
) -> None:
    names = {one.get("name", "") for one in others}
    for index, one in enumerate(given):
        here = f"{path}[{index}]"
        container(found, one, volumes, spec.get("restartPolicy", ""), here)
        policy, name = one.get("restartPolicy"), one.get("name", "")
        _restart_policy(found, policy, here)
        if name in names:
            found.append(duplicate(f"{here}.name", name))
        elif name:
            names.add(name)
        _host_ports(found, [one], path)
        if policy == "Always":
            probes.all_of(found, one, spec.get("terminationGracePeriodSeconds"), here)
            continue
        for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if one.get(key) is not None:
                text = "may not be set for init containers without restartPolicy=Always"
                found.append(forbidden_field(f"{here}.{key}", text))


def _restart_policy(found: Found, policy: str | None, path: str) -> None:
    if policy is not None and policy not in RESTART_POLICIES:
        found.append(not_supported(f"{path}.restartPolicy", policy, RESTART_POLICIES))


def ephemeral_containers(
    found: Found, given: Sequence[Container], others: Sequence[Container], volumes: Volumes, spec: Container, path: str
) -> None:
    """Check ephemeral containers. Ephemeral containers are for inspecting a running pod, so ports, probes and some
    other fields are forbidden."""
    lasting = {one.get("name", "") for one in others}
    names = set(lasting)
    for index, one in enumerate(given):
        here = f"{path}[{index}]"
        container(found, one, volumes, spec.get("restartPolicy", ""), here)
        image, name, target = one.get("image", ""), one.get("name", ""), one.get("targetContainerName", "")
        if image != image.strip():
            found.append(invalid_value(f"{here}.image", image, "must not have leading or trailing whitespace"))
        if name in names:
            found.append(duplicate(f"{here}.name", name))
        names.add(name)
        if target and target not in lasting:
            found.append(not_found_value(f"{here}.targetContainerName", target))
        for key in NOT_EPHEMERAL:
            if one.get(key):
                found.append(forbidden_field(f"{here}.{key}", "cannot be set for an Ephemeral Container"))
        for number, mount in enumerate(one.get("volumeMounts", ())):
            for key in ("subPath", "subPathExpr"):
                if mount.get(key):
                    text = "cannot be set for an Ephemeral Container"
                    found.append(forbidden_field(f"{here}.volumeMounts[{number}].{key}", text))


def container(found: Found, one: Container, volumes: Volumes, restart_policy: str, path: str) -> None:
    """Check the fields that all kinds of containers have in common."""
    if name := one.get("name"):
        formatted(found, f"{path}.name", name, formats.dns_label)
    else:
        found.append(required(f"{path}.name"))
    if not one.get("image"):
        found.append(required(f"{path}.image"))
    policy = one.get("terminationMessagePolicy")
    chosen(found, f"{path}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError"))
    if "ports" in one:
        _ports(found, one["ports"], f"{path}.ports")
    if "env" in one:
        _environment(found, one["env"], f"{path}.env")
    if "envFrom" in one:
        _environment_from(found, one["envFrom"], f"{path}.envFrom")
    if "volumeMounts" in one:
        _mounts(found, one["volumeMounts"], one, volumes, f"{path}.volumeMounts")
    if "volumeDevices" in one:
        _devices(found, one["volumeDevices"], one, volumes, f"{path}.volumeDevices")
    chosen(found, f"{path}.imagePullPolicy", one.get("imagePullPolicy"), PULL_POLICIES)
    requirements(found, one.get("resources"), f"{path}.resources")
    if "resizePolicy" in one:
        _resize_policy(found, one["resizePolicy"], restart_policy, f"{path}.resizePolicy")
    if security := one.get("securityContext"):
        _security(found, security, f"{path}.securityContext")


def _ports(found: Found, given: Sequence[Container], path: str) -> None:
    names: set[str] = set()
    for index, port in enumerate(given):
        here = f"{path}[{index}]"
        if name := port.get("name"):
            if problems := formats.port_name(name):
                complain(found, f"{here}.name", name, problems)
            elif name in names:
                found.append(duplicate(f"{here}.name", name))
            names.add(name)
        if not (number := port.get("containerPort", 0)):
            found.append(required(f"{here}.containerPort"))
        else:
            complain(found, f"{here}.containerPort", number, formats.port_number(number))
        if host := port.get("hostPort", 0):
            complain(found, f"{here}.hostPort", host, formats.port_number(host))
        chosen(found, f"{here}.protocol", port.get("protocol"), PROTOCOLS)


def _host_ports(found: Found, given: Sequence[Container], path: str) -> None:
    taken: set[str] = set()
    for index, one in enumerate(given):
        for number, port in enumerate(one.get("ports", ())):
            if host := port.get("hostPort", 0):
                place = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{host}"
                if place in taken:
                    found.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", place))
                taken.add(place)


def _environment(found: Found, given: Sequence[Container], path: str) -> None:
    for index, variable in enumerate(given):
        name = variable.get("name")
        if not name:
            found.append(required(f"{path}[{index}].name"))
        elif problems := formats.env_name(name):
            complain(found, f"{path}[{index}].name", name, problems)
        if (source := variable.get("valueFrom")) is not None:
            _value_from(found, source, variable.get("value"), f"{path}[{index}].valueFrom")


def _value_from(found: Found, source: Container, value: str | None, path: str) -> None:
    if (field := source.get("fieldRef")) is not None:
        field_selector(found, field, ENV_FIELDS, f"{path}.fieldRef")
    if (resource := source.get("resourceFieldRef")) is not None:
        resource_selector(found, resource, f"{path}.resourceFieldRef", of_volume=False)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(key)) is not None:
            _key_selector(found, reference, f"{path}.{key}")
    if not source:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        found.append(invalid_value(path, "", text))
    elif value:
        found.append(invalid_value(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        found.append(invalid_value(path, "", ONE_SOURCE))


def field_selector(found: Found, given: Container, allowed: Sequence[str], path: str) -> None:
    """Check a `fieldRef` of the downward API. `allowed`: the field paths that it may name."""
    field = given.get("fieldPath", "")
    if not given.get("apiVersion"):
        found.append(required(f"{path}.apiVersion"))
    elif not field:
        found.append(required(f"{path}.fieldPath"))
    elif match := _SUBSCRIPTED.fullmatch(field):
        name, key = match.groups()
        if name not in ("metadata.labels", "metadata.annotations"):
            text = f"error converting fieldPath: field label does not support subscript: {field}"
            found.append(invalid_value(f"{path}.fieldPath", field, text))
        else:
            formatted(found, path, key.lower() if name == "metadata.annotations" else key, formats.qualified_name)
    elif field not in allowed:
        if field in (*ENV_FIELDS, "metadata.labels", "metadata.annotations", "spec.restartPolicy", "status.phase"):
            found.append(not_supported(f"{path}.fieldPath", field, allowed))
        else:
            text = f"error converting fieldPath: field label not supported: {field}"
            found.append(invalid_value(f"{path}.fieldPath", field, text))


def resource_selector(found: Found, given: Container, path: str, *, of_volume: bool) -> None:
    """Check a `resourceFieldRef` of the downward API. `of_volume`: True for a reference in a volume, which must name
    the container."""
    resource, divisor = given.get("resource", ""), given.get("divisor", "0")
    if of_volume and not given.get("containerName"):
        found.append(required(f"{path}.containerName"))
    elif not resource:
        found.append(required(f"{path}.resource"))
    elif resource not in RESOURCE_FIELDS and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        found.append(not_supported(f"{path}.resource", resource, RESOURCE_FIELDS))
    if divisor != "0" and resource.endswith(".cpu") and divisor not in ("1m", "1"):
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
        found.append(invalid_value(f"{path}.divisor", resource, text))


def _key_selector(found: Found, given: Container, path: str) -> None:
    formatted(found, f"{path}.name", given.get("name", ""), formats.dns_subdomain)
    if key := given.get("key"):
        complain(found, f"{path}.key", key, formats.config_key(key))
    else:
        found.append(required(f"{path}.key"))


def _environment_from(found: Found, given: Sequence[Container], path: str) -> None:
    for index, one in enumerate(given):
        if prefix := one.get("prefix"):
            complain(found, f"{path}[{index}].prefix", prefix, formats.env_name(prefix))
        sources = [key for key in ("configMapRef", "secretRef") if one.get(key) is not None]
        for key in sources:
            if name := one[key].get("name"):
                problems = formats.dns_subdomain(formats.as_prefix(name))
                complain(found, f"{path}[{index}].{key}.name", name, problems)
            else:
                found.append(required(f"{path}[{index}].{key}.name"))
        if not sources:
            found.append(invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(sources) > 1:
            found.append(invalid_value(path, "", ONE_SOURCE))


def _mounts(found: Found, given: Sequence[Container], owner: Container, volumes: Volumes, path: str) -> None:
    points: set[str] = set()
    devices = {one.get("name", ""): one.get("devicePath", "") for one in owner.get("volumeDevices", ())}
    for index, mount in enumerate(given):
        here, name, point = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(required(f"{here}.name"))
        if name not in volumes:
            found.append(not_found_value(f"{here}.name", name))
        if not point:
            found.append(required(f"{here}.mountPath"))
        if point in points:
            found.append(invalid_value(f"{here}.mountPath", point, "must be unique"))
        points.add(point)
        if name in devices:
            found.append(invalid_value(f"{here}.name", name, "must not already exist in volumeDevices"))
        if point in devices.values():
            text = "must not already exist as a path in volumeDevices"
            found.append(invalid_value(f"{here}.mountPath", point, text))
        _mount_details(found, mount, here, path)


def _mount_details(found: Found, mount: Container, path: str, all_of: str) -> None:
    if sub := mount.get("subPath"):
        descending(found, sub, f"{all_of}.subPath")
    if expression := mount.get("subPathExpr"):
        if mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            found.append(invalid_value(f"{path}.subPathExpr", expression, text))
        descending(found, expression, f"{all_of}.subPathExpr")
    if (propagation := mount.get("mountPropagation")) is not None:
        choices = ("Bidirectional", "HostToContainer", "None")
        if propagation not in choices:
            found.append(not_supported(f"{all_of}.mountPropagation", propagation, choices))


def descending(found: Found, text: str, path: str) -> None:
    """Check that a path is relative and does not contain `..`."""
    if text.startswith("/"):
        found.append(invalid_value(path, text, "must be a relative path"))
    if ".." in text.split("/"):
        found.append(invalid_value(path, text, "must not contain '..'"))


def _devices(found: Found, given: Sequence[Container], owner: Container, volumes: Volumes, path: str) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(given):
        here, name, place = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            found.append(required(f"{here}.name"))
        if name in names:
            found.append(invalid_value(f"{here}.name", name, "must be unique"))
        if name not in volumes:
            found.append(not_found_value(f"{here}.name", name))
        elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(invalid_value(f"{here}.name", name, text))
        if not place:
            found.append(required(f"{here}.devicePath"))
        if place in paths:
            found.append(invalid_value(f"{here}.devicePath", place, "must be unique"))
        if ".." in place.split("/"):
            found.append(invalid_value(f"{here}.devicePath", place, "can not contain backsteps ('..')"))
        names.add(name)
        paths.add(place)


def _resize_policy(found: Found, given: Sequence[Container], restart_policy: str, path: str) -> None:
    seen: set[str] = set()
    for index, one in enumerate(given):
        name, policy = one.get("resourceName", ""), one.get("restartPolicy", "")
        if name in seen:
            found.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
        chosen(found, path, name, ("cpu", "memory"))
        chosen(found, path, policy, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.append(invalid_value(path, policy, text))


def _security(found: Found, given: Container, path: str) -> None:
    for key in ("runAsUser", "runAsGroup"):
        if (number := given.get(key)) is not None and not 0 <= number <= 2**31 - 1:
            found.append(invalid_value(f"{path}.{key}", number, formats.range_error(0, 2**31 - 1)))
    if given.get("allowPrivilegeEscalation") is False and given.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        found.append(invalid_value(path, given, text))
    mount = given.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        found.append(not_supported(f"{path}.procMount", mount, ("Default", "Unmasked")))
    seccomp(found, given.get("seccompProfile"), f"{path}.seccompProfile")
    app_armor(found, given.get("appArmorProfile"), f"{path}.appArmorProfile")


def app_armor(found: Found, given: Container | None, path: str) -> None:
    """Check the `appArmorProfile` of a container or a pod."""
    if given is None:
        return
    sort, local = given.get("type", ""), given.get("localhostProfile")
    if not sort:
        found.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    elif sort not in PROFILES:
        found.append(not_supported(f"{path}.type", sort, PROFILES))
    elif sort != "Localhost" and local is not None:
        text = "can only be set when AppArmor type is Localhost"
        found.append(invalid_value(f"{path}.localhostProfile", local, text))
    elif sort == "Localhost" and (local is None or not local.strip()):
        found.append(required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost"))
    elif local is not None and local != local.strip():
        found.append(invalid_value(f"{path}.localhostProfile", local, "must not be padded with whitespace"))


def seccomp(found: Found, given: Container | None, path: str) -> None:
    if given is None:
        return
    sort, local = given.get("type", ""), given.get("localhostProfile")
    if not sort:
        found.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif sort not in PROFILES:
        found.append(not_supported(f"{path}.type", sort, PROFILES))
    if sort == "Localhost":
        if local is None:
            found.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            descending(found, local, f"{path}.localhostProfile")
    elif local is not None:
        shown = {"Type": sort, "LocalhostProfile": local}
        text = "can only be set when seccomp type is Localhost"
        found.append(invalid_value(f"{path}.localhostProfile", shown, text))
