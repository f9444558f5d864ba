"""Network policies: kept for clients that write them with everything else (spark-submit does), enforced by nobody here.

Source: pkg/apis/networking/v1/defaults.go, pkg/apis/networking/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.apiserver.apimachinery.meta.resource import Object
from phalanx.embedded.apiserver.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apiserver.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, complain, formatted, label_selector
from phalanx.embedded.apiserver.registry.kinds.generation import Counted

TYPES = ("Egress", "Ingress")
PROTOCOLS = ("SCTP", "TCP", "UDP")


class NetworkPolicyStrategy(Counted):
    """`networkpolicies.networking.k8s.io`."""

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
        for index, sort in enumerate(spec.get("policyTypes") or ()):
            if sort not in TYPES:
                found.append(not_supported(f"spec.policyTypes[{index}]", sort, TYPES))
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        if old is not None:
            return []
        return ["no network plugin of this cluster enforces a NetworkPolicy: all traffic stays allowed"]


def _port(found: Found, port: Mapping[str, Any], path: str) -> None:
    if (protocol := port.get("protocol")) not in PROTOCOLS:
        found.append(not_supported(f"{path}.protocol", protocol or "", PROTOCOLS))
    number = port.get("port")
    if isinstance(number, int):
        complain(found, f"{path}.port", number, formats.port_number(number))
    elif number is not None:
        complain(found, f"{path}.port", number, formats.port_name(number))


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
