"""Network policies, Ingresses and their classes. The server stores them for clients that write them (spark-submit,
charts). No component of Phalanx acts on them, but a user may run, for example, an ingress controller that does.

Source: pkg/apis/networking/v1/defaults.go, pkg/apis/networking/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.formats import Problems
from phalanx.embedded.apiserver.registry.kinds.checks import Found, complain, formatted, label_selector, unchanged
from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy, SpecAndStatus

TYPES = ("Ingress", "Egress")
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
PROTOCOLS = ("TCP", "UDP", "SCTP")


class NetworkPolicyStrategy(GenerationStrategy):
    """The strategy of `networkpolicies.networking.k8s.io`."""

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for key in ("ingress", "egress"):
            for rule in spec.get(key) or ():
                for port in rule.get("ports") or ():
                    port.setdefault("protocol", "TCP")

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        label_selector(found, spec.get("podSelector"), "spec.podSelector")
        for key, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(key) or ()):
                path = f"spec.{key}[{index}]"
                for number, port in enumerate(rule.get("ports") or ()):
                    _port(found, port, f"{path}.ports[{number}]")
                for number, peer in enumerate(rule.get(peers) or ()):
                    _peer(found, peer, f"{path}.{peers}[{number}]")
        if len(spec.get("policyTypes") or ()) > len(TYPES):
            text = "may not specify more than two policyTypes"
            found.append(invalid_value("spec.policyTypes", spec["policyTypes"], text))
            return found
        for index, sort in enumerate(spec.get("policyTypes") or ()):
            if sort not in TYPES:
                found.append(not_supported(f"spec.policyTypes[{index}]", sort, TYPES))
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        if old is not None:
            return []
        return ["no network plugin of this cluster enforces a NetworkPolicy: all traffic stays allowed"]


class IngressStrategy(SpecAndStatus):
    """The strategy of `ingresses.networking.k8s.io`."""

    counts = True

    def first_status(self, obj: Object) -> Object:
        return {"loadBalancer": {}}

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        if not spec.get("rules") and not spec.get("defaultBackend"):
            text = "either `defaultBackend` or `rules` must be specified"
            found.append(invalid_value("spec", [], text))
        for index, one in enumerate(spec.get("tls") or ()):
            for number, host in enumerate(one.get("hosts") or ()):
                formatted(found, f"spec.tls[{index}].hosts[{number}]", host, _host)
            if name := one.get("secretName"):
                formatted(found, f"spec.tls[{index}].secretName", name, formats.dns_subdomain)
        if spec.get("defaultBackend") is not None:
            _backend(found, spec["defaultBackend"], "spec.defaultBackend")
        if (name := spec.get("ingressClassName")) is not None:
            formatted(found, "spec.ingressClassName", name, formats.dns_subdomain)
        for index, rule in enumerate(spec.get("rules") or ()):
            _rule(found, rule, f"spec.rules[{index}]")
        return found


class IngressClassStrategy(GenerationStrategy):
    """The strategy of `ingressclasses.networking.k8s.io`."""

    def default(self, obj: Object) -> None:
        if parameters := obj["spec"].get("parameters"):
            parameters.setdefault("scope", "Cluster")

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        if not (controller := obj["spec"].get("controller")):
            found.append(required("spec.controller"))
        else:
            formatted(found, "spec.controller", controller, formats.domain_path)
        if (parameters := obj["spec"].get("parameters")) is not None:
            _parameters(found, parameters, "spec.parameters")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        unchanged(found, "spec.controller", obj["spec"].get("controller") or "", old["spec"].get("controller"))
        return found


def _parameters(found: Found, given: Mapping[str, Any], path: str) -> None:
    """Check the reference of an ingress class to its parameters."""
    if (group := given.get("apiGroup")) is not None:
        formatted(found, f"{path}.apiGroup", group, formats.dns_subdomain)
    for key in ("kind", "name"):
        if not given.get(key):
            found.append(required(f"{path}.{key}"))
        else:
            formatted(found, f"{path}.{key}", given[key], formats.path_segment)
    scope, namespace = given.get("scope"), given.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        found.append(not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace":
        if namespace is None:
            found.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            formatted(found, f"{path}.namespace", namespace, formats.dns_label)
    elif namespace is not None:
        found.append(forbidden_field(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))


def _host(text: str) -> Problems:
    """Return the errors in a host name, whose first label may be `*`."""
    return formats.wildcard_subdomain(text) if "*" in text else formats.dns_subdomain(text)


def _rule(found: Found, rule: Mapping[str, Any], path: str) -> None:
    if host := rule.get("host"):
        formatted(found, f"{path}.host", host, _host)
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        found.append(required(f"{path}.http.paths"))
    for number, one in enumerate(http.get("paths") or ()):
        place = f"{path}.http.paths[{number}]"
        if one.get("pathType") is None:
            found.append(required(f"{place}.pathType", "pathType must be specified"))
            continue
        if one["pathType"] not in PATH_TYPES:
            found.append(not_supported(f"{place}.pathType", one["pathType"], PATH_TYPES))
            continue
        if one["pathType"] != "ImplementationSpecific" and not (one.get("path") or "").startswith("/"):
            found.append(invalid_value(f"{place}.path", one.get("path") or "", "must be an absolute path"))
        _backend(found, one.get("backend") or {}, f"{place}.backend")


def _backend(found: Found, backend: Mapping[str, Any], path: str) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service and resource:
        text = "cannot set both resource and service backends"
        found.append(invalid_value(path, "", text))
    elif service:
        if not service.get("name"):
            found.append(required(f"{path}.service.name"))
        else:
            formatted(found, f"{path}.service.name", service["name"], formats.dns_label)
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            found.append(invalid_value(path, "", "cannot set both port name & port number"))
        elif port.get("name"):
            complain(found, f"{path}.service.port.name", port["name"], formats.port_name(port["name"]))
        elif port.get("number"):
            complain(found, f"{path}.service.port.number", port["number"], formats.port_number(port["number"]))
        else:
            found.append(required(path, "port name or number is required"))
    elif not resource:
        found.append(invalid_value(path, "", "resource or service backend is required"))


def _port(found: Found, port: Mapping[str, Any], path: str) -> None:
    if (protocol := port.get("protocol")) not in PROTOCOLS:
        found.append(not_supported(f"{path}.protocol", protocol or "", PROTOCOLS))
    number = port.get("port")
    if isinstance(number, int):
        complain(found, f"{path}.port", number, formats.port_number(number))
    elif number is not None:
        complain(found, f"{path}.port", number, formats.port_name(number))
    if (end := port.get("endPort")) is None:
        return
    if number is None:
        found.append(invalid_value(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
    elif isinstance(number, str):
        found.append(invalid_value(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
    else:
        if end < number:
            found.append(invalid_value(f"{path}.endPort", number, "must be greater than or equal to `port`"))
        complain(found, f"{path}.endPort", end, formats.port_number(end))


def _peer(found: Found, peer: Mapping[str, Any], path: str) -> None:
    label_selector(found, peer.get("podSelector"), f"{path}.podSelector")
    label_selector(found, peer.get("namespaceSelector"), f"{path}.namespaceSelector")
    block = peer.get("ipBlock")
    if block is not None:
        if len(peer) > 1:
            text = "may not specify both ipBlock and another peer"
            found.append(forbidden_field(path, text))
        if not block.get("cidr"):
            found.append(required(f"{path}.ipBlock.cidr"))
        else:
            formatted(found, f"{path}.ipBlock.cidr", block["cidr"], formats.cidr)
    elif not peer:
        found.append(required(path, "must specify a peer"))
    for index, cidr in enumerate((block or {}).get("except") or ()):
        for problem in formats.cidr(cidr):
            found.append(invalid_value(f"{path}.ipBlock.except[{index}]", cidr, problem))
