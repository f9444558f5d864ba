"""The client of cloud providers that serve the gRPC protocol `externalgrpc` of the Cluster Autoscaler. The module
defines the address of such a service with its TLS files, the messages of the protocol, and its calls.

The names and numbers of the messages are those of
cluster-autoscaler/cloudprovider/externalgrpc/protos/externalgrpc.proto of kubernetes/autoscaler 1.36.1. The message of
a Node is that of k8s.io/api/core/v1/generated.proto. (Both files: Apache-2.0.)

Calls use TLS, unless the service runs on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from phalanx.errors import PhalanxError
from phalanx.providers.counted.called import is_loopback
from phalanx.providers.counted.calls import MOST_BYTES, text_of
from phalanx.providers.provider import ProviderError
from phalanx.rpc.library import grpc
from phalanx.rpc.messages import Messages

UNIX = "unix:"


class CloudAddress(NamedTuple):
    """The address of the service. `address`: HOST:PORT or unix:PATH. `authority`: a PEM file with the certificates that
    sign the service's certificate. `certificate`, `key`: PEM files with the certificate and the key of this client.
    `timeout_s`: the time limit of one call."""

    address: str
    authority: Path | None
    certificate: Path | None
    key: Path | None
    timeout_s: float


def require_pem(file: Path) -> bytes:
    """Return the content of a file with certificates or a key. Raises PhalanxError."""
    try:
        found = file.read_bytes()
    except OSError as error:
        raise PhalanxError(f"{file} cannot be read: {error.strerror or error}") from None
    if b"-----BEGIN " not in found:
        raise PhalanxError(f"{file} contains no PEM data")
    return found


def wrong_address(address: str, *, tls: bool) -> str:
    """Return why the address cannot be used for a service; empty if it can."""
    if address.startswith(UNIX):
        path = address.removeprefix(UNIX)
        return (
            ""
            if path.startswith("/")
            else f"{address!r} has no absolute path; write unix:PATH, such as unix:/run/nodes.sock"
        )
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536 or "/" in address or " " in address:
        return f"{address!r} is neither HOST:PORT nor unix:PATH; write, for example, nodes.example.com:8086"
    if not tls and not is_loopback(host):
        return f"{address!r} is not encrypted: set caFile; without it only this machine and unix:PATH can be called"
    return ""


_MESSAGES = Messages(
    "clusterautoscaler.cloudprovider.v1.externalgrpc",
    {
        "Empty": {},  # the message of the request Refresh, and of answers without fields
        "Group": {"id": (1, "text"), "minSize": (2, "integer"), "maxSize": (3, "integer"), "debug": (4, "text")},
        "Groups": {"nodeGroups": (1, "*Group")},
        "OfGroup": {"id": (1, "text")},
        "TargetSize": {"targetSize": (1, "integer")},
        "ChangeSize": {"delta": (1, "integer"), "id": (2, "text")},
        "Pair": {"key": (1, "text"), "value": (2, "text")},
        "CloudNode": {
            "providerID": (1, "text"),
            "name": (2, "text"),
            "labels": (3, "*Pair"),
            "annotations": (4, "*Pair"),
        },
        "DeleteNodes": {"nodes": (1, "*CloudNode"), "id": (2, "text")},
        "ErrorInfo": {"errorCode": (1, "text"), "errorMessage": (2, "text"), "instanceErrorClass": (3, "integer")},
        "InstanceStatus": {"instanceState": (1, "integer"), "errorInfo": (2, "ErrorInfo")},
        "Instance": {"id": (1, "text"), "status": (2, "InstanceStatus")},
        "Instances": {"instances": (1, "*Instance")},
        "Moment": {"seconds": (1, "long"), "nanos": (2, "integer")},
        "PriceOfNode": {"node": (1, "CloudNode"), "startTimestamp": (4, "Moment"), "endTimestamp": (5, "Moment")},
        "Price": {"price": (1, "number")},
        "Template": {"nodeBytes": (2, "bytes")},
        # The messages of Node (core/v1), which is encoded in `nodeBytes`.
        "Amount": {"string": (1, "text")},
        "AmountPair": {"key": (1, "text"), "value": (2, "Amount")},
        "Taint": {"key": (1, "text"), "value": (2, "text"), "effect": (3, "text")},
        "Metadata": {"name": (1, "text"), "labels": (11, "*Pair")},
        "NodeSpec": {"providerID": (3, "text"), "taints": (5, "*Taint")},
        "NodeStatus": {"capacity": (1, "*AmountPair"), "allocatable": (2, "*AmountPair")},
        "Node": {"metadata": (1, "Metadata"), "spec": (2, "NodeSpec"), "status": (3, "NodeStatus")},
    },
)
message, service = _MESSAGES.message, _MESSAGES.service

# call -> the message names of its request and its answer
CALLS = {
    "Refresh": ("Empty", "Empty"),
    "NodeGroups": ("Empty", "Groups"),
    "NodeGroupTargetSize": ("OfGroup", "TargetSize"),
    "NodeGroupIncreaseSize": ("ChangeSize", "Empty"),
    "NodeGroupDecreaseTargetSize": ("ChangeSize", "Empty"),
    "NodeGroupDeleteNodes": ("DeleteNodes", "Empty"),
    "NodeGroupNodes": ("OfGroup", "Instances"),
    "NodeGroupTemplateNodeInfo": ("OfGroup", "Template"),
    "PricingNodePrice": ("PriceOfNode", "Price"),
}
RUNNING, CREATING, DELETING = 1, 2, 3  # values of the field instanceState; 0 means unknown


class NotOffered(ProviderError):
    """Raised if the cloud provider does not implement a call."""


class CloudService:
    """The service of a cloud provider, on an open channel."""

    def __init__(self, channel: Any, at: CloudAddress) -> None:
        self._at, self.name = at, f"the cloud provider at {at.address}"
        self._calls = {
            call: channel.unary_unary(
                service("CloudProvider", call),
                request_serializer=message(request).SerializeToString,
                response_deserializer=message(answer).FromString,
            )
            for call, (request, answer) in CALLS.items()
        }

    async def call(self, call: str, **fields: Any) -> Any:
        """Make the call and return its answer. Raises ProviderError; NotOffered if the provider does not offer the
        call."""
        request = message(CALLS[call][0])(**fields)
        try:
            return await self._calls[call](request, timeout=self._at.timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error(call, error) from None

    def _error(self, call: str, error: Any) -> ProviderError:
        said = text_of(error.details() or "") or "it gives no reason"
        match error.code():
            case grpc.StatusCode.UNIMPLEMENTED:
                return NotOffered(f"{self.name} does not offer {call}")
            case grpc.StatusCode.UNAVAILABLE:
                return ProviderError(f"{self.name} cannot be called: {said}")
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return ProviderError(f"{self.name} did not answer {call} within {self._at.timeout_s:g} s")
            case code:
                return ProviderError(f"{self.name} answered {call} with {code.name}: {said}")


@asynccontextmanager
async def open_cloud(at: CloudAddress) -> AsyncIterator[CloudService]:
    """Open a channel; the first call connects it. Raises PhalanxError if a file cannot be read."""
    options = [("grpc.max_receive_message_length", MOST_BYTES), ("grpc.enable_http_proxy", 0)]
    if at.authority is None:
        channel = grpc.aio.insecure_channel(at.address, options)
    else:
        channel = grpc.aio.secure_channel(at.address, credentials(at), options)
    async with channel:
        yield CloudService(channel, at)


def credentials(at: CloudAddress) -> object:
    """Return the TLS credentials. Raises PhalanxError."""
    files = at.authority, at.key, at.certificate
    return grpc.ssl_channel_credentials(*(None if file is None else require_pem(file) for file in files))
