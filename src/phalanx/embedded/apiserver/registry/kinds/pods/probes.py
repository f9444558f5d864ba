"""Validate the probes and lifecycle hooks of a container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.status import forbidden_field, invalid_value, not_supported, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, complain, formatted, not_negative

COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def all_of(found: Found, container: Mapping[str, Any], grace_s: int | None, path: str) -> None:
    """Check the lifecycle hooks and the three probes of a container."""
    for key in ("postStart", "preStop"):
        if (handler := (container.get("lifecycle") or {}).get(key)) is not None:
            _handler(found, handler, grace_s, f"{path}.lifecycle.{key}")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(key)) is not None:
            _probe(found, probe, key, grace_s, f"{path}.{key}")


def _probe(found: Found, probe: Mapping[str, Any], sort: str, grace_s: int | None, path: str) -> None:
    _handler(found, probe, grace_s, path)
    not_negative(found, probe, COUNTS, path)
    own_grace_s = probe.get("terminationGracePeriodSeconds")
    if own_grace_s is not None and own_grace_s <= 0:
        found.append(invalid_value(f"{path}.terminationGracePeriodSeconds", own_grace_s, "must be greater than 0"))
    if sort == "readinessProbe":
        if own_grace_s is not None:
            text = "must not be set for readinessProbes"
            found.append(invalid_value(f"{path}.terminationGracePeriodSeconds", own_grace_s, text))
    elif probe.get("successThreshold", 0) != 1:
        found.append(invalid_value(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))


def _handler(found: Found, given: Mapping[str, Any], grace_s: int | None, path: str) -> None:
    """Check that a handler is exactly one of exec, httpGet, tcpSocket, grpc and sleep, and that its fields are
    valid."""
    sorts = [key for key in ("exec", "httpGet", "tcpSocket", "grpc", "sleep") if given.get(key) is not None]
    if not sorts:
        found.append(required(path, "must specify a handler type"))
        return
    _one_handler(found, sorts[0], given[sorts[0]], grace_s, f"{path}.{sorts[0]}")
    for extra in sorts[1:]:
        found.append(forbidden_field(f"{path}.{extra}", "may not specify more than 1 handler type"))


def _one_handler(found: Found, sort: str, given: Mapping[str, Any], grace_s: int | None, path: str) -> None:
    match sort:
        case "exec":
            if not given.get("command"):
                found.append(required(f"{path}.command"))
        case "sleep":
            seconds = given.get("seconds", 0)
            if grace_s is not None and not 0 <= seconds <= grace_s:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
                found.append(invalid_value(path, seconds, text))
        case "httpGet":
            if not given.get("path"):
                found.append(required(f"{path}.path"))
            _port(found, given.get("port", 0), f"{path}.port")
            if given.get("scheme") not in ("HTTP", "HTTPS"):
                found.append(not_supported(f"{path}.scheme", given.get("scheme", ""), ("HTTP", "HTTPS")))
            for header in given.get("httpHeaders", ()):
                formatted(found, f"{path}.httpHeaders", header.get("name", ""), formats.http_header_name)
        case _:
            _port(found, given.get("port", 0), f"{path}.port")


def _port(found: Found, port: int | str, path: str) -> None:
    complain(found, path, port, formats.port_number(port) if isinstance(port, int) else formats.port_name(port))
