"""Build a container's environment and command line, as the kubelet does (pkg/kubelet/kubelet_pods.go).

`$(NAME)` is replaced by the value of an earlier entry. A reference to an unknown name stays unchanged. `$$(NAME)`
becomes the string `$(NAME)`. If an object is missing, the container waits with the reason CreateContainerConfigError
and the kubelet's message.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from math import ceil
from typing import Any

from phalanx.client.kind import CONFIG_MAPS, SECRETS, Kind
from phalanx.client.quantity import parse
from phalanx.embedded.node.container.image import HOST, Image
from phalanx.embedded.node.container.image import argv as command_words
from phalanx.errors import PhalanxError

Object = Mapping[str, Any]
Lookup = Callable[[Kind, str, str], Awaitable[Object | None]]  # kind, namespace, name -> object or None

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")
_NAME = re.compile(r"^[-._a-zA-Z0-9]+$")


class EnvironmentFault(PhalanxError):
    """Raised if an object that a container's configuration names does not exist, or if the configuration is invalid."""


def expand(text: str, known: Mapping[str, str]) -> str:
    """Return the text with `$(NAME)` replaced for every known name, and `$$` by `$`."""

    def one(match: re.Match[str]) -> str:
        whole = match.group(1)
        return "$" if whole == "$" else known.get(match.group(2), match.group(0))

    return _REFERENCE.sub(one, text)


def command_line(container: Object, known: Mapping[str, str], image: Image = HOST) -> tuple[str, ...]:
    """Return the command line of a container. Raises EnvironmentFault if it is empty, because the image `host` has no
    entry point."""
    argv = tuple(expand(word, known) for word in command_words(image, container))
    if not argv:
        raise EnvironmentFault(
            f"container {container['name']} has no command. `image: host` is this machine's own file system and has "
            'no entry point; write for instance command: ["python3", "train.py"]'
        )
    return argv


def with_addresses(pod: Object, pod_ip: str, host_ip: str) -> dict[str, object]:
    """Return a copy of the pod whose status has the addresses, for the downward API. The status in the API may not have
    them yet."""
    addresses = {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    return {**pod, "status": {**(pod.get("status") or {}), **addresses}}


async def environment(
    container: Object, pod: Object, allocatable: Mapping[str, str], look_up: Lookup
) -> dict[str, str]:
    """Return the variables that the spec of the container defines, in order. `pod`: the pod with its status (podIP).

    Raises EnvironmentFault, ApiError."""
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found |= await _all_of(source, pod, look_up)
    for variable in container.get("env") or ():
        if (origin := variable.get("valueFrom")) is None:
            found[variable["name"]] = expand(variable.get("value") or "", found)
        elif (value := await _value(origin, container, pod, allocatable, look_up)) is not None:
            found[variable["name"]] = value
    return found


async def _all_of(source: Object, pod: Object, look_up: Lookup) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    kind, ref = (CONFIG_MAPS, source["configMapRef"]) if "configMapRef" in source else (SECRETS, source["secretRef"])
    owner = await _owner(kind, ref, pod, look_up)
    data = {} if owner is None else text_data(kind, owner)
    return {prefix + key: value for key, value in data.items() if _NAME.match(prefix + key)}


async def _value(
    origin: Object, container: Object, pod: Object, allocatable: Mapping[str, str], look_up: Lookup
) -> str | None:
    if ref := origin.get("fieldRef"):
        return field(ref["fieldPath"], pod)
    if ref := origin.get("resourceFieldRef"):
        return resource_field(ref, container, pod, allocatable)
    kind, ref = (
        (CONFIG_MAPS, origin.get("configMapKeyRef"))
        if "configMapKeyRef" in origin
        else (SECRETS, origin.get("secretKeyRef"))
    )
    if not ref:
        raise EnvironmentFault(f"valueFrom {', '.join(origin)} is not supported here; use a value or a configMapKeyRef")
    owner = await _owner(kind, ref, pod, look_up)
    if owner is None:
        return None
    value = text_data(kind, owner).get(ref["key"])
    if value is None and not ref.get("optional"):
        space = pod["metadata"]["namespace"]
        raise EnvironmentFault(f"couldn't find key {ref['key']} in {kind.name} {space}/{ref['name']}")
    return value


async def _owner(kind: Kind, ref: Object, pod: Object, look_up: Lookup) -> Object | None:
    owner = await look_up(kind, pod["metadata"]["namespace"], ref.get("name") or "")
    if owner is None and not ref.get("optional"):
        raise EnvironmentFault(f'{kind.name.lower()} "{ref.get("name")}" not found')
    return owner


def text_data(kind: Kind, owner: Object) -> dict[str, str]:
    """Return the data of a ConfigMap or Secret as strings for environment variables."""
    data = owner.get("data") or {}
    if kind is CONFIG_MAPS:
        return dict(data)
    return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}


def byte_data(kind: Kind, owner: Object) -> dict[str, bytes]:
    """Return all data of a ConfigMap or Secret as the contents of files."""
    data, binary = owner.get("data") or {}, owner.get("binaryData") or {}
    if kind is CONFIG_MAPS:
        return {key: value.encode() for key, value in data.items()} | {
            k: base64.b64decode(v) for k, v in binary.items()
        }
    return {key: base64.b64decode(value) for key, value in data.items()}


# --- the downward API -------------------------------------------------------------------------------------------------


def field(path: str, pod: Object) -> str:
    """Return the value of a fieldRef. Raises EnvironmentFault for a path that the downward API does not have."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if match := _SUBSCRIPT.match(path):
        return str((meta.get(match.group(1)) or {}).get(match.group(2), ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(meta[path.partition(".")[2]])
        case "metadata.labels" | "metadata.annotations":
            pairs = meta.get(path.partition(".")[2]) or {}
            return "\n".join(f'{key}="{_escape(pairs[key])}"' for key in sorted(pairs))
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.partition(".")[2]) or "")
        case "status.hostIP" | "status.podIP":
            return str(status.get(path.partition(".")[2]) or "")
        case "status.hostIPs" | "status.podIPs":
            return ",".join(one["ip"] for one in status.get(path.partition(".")[2]) or ())
        case _:
            raise EnvironmentFault(f"unsupported fieldPath: {path}")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_field(ref: Object, container: Object, pod: Object, allocatable: Mapping[str, str]) -> str:
    """Return requests.X or limits.X of a container in units of the divisor, rounded up. For a missing limit, use the
    allocatable amount of the node."""
    if name := ref.get("containerName"):
        named = [one for one in pod["spec"]["containers"] if one["name"] == name]
        container = named[0] if named else container
    which, _, resource = ref["resource"].partition(".")
    resources = container.get("resources") or {}
    text = (resources.get(which) or {}).get(resource)
    if text is None and which == "limits":
        text = allocatable.get(resource)
    divisor = parse(ref.get("divisor") or "1") or 1
    return str(ceil(parse(text or "0") / divisor))
