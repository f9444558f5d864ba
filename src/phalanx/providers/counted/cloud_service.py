"""The gRPC service of a cloud provider that speaks `externalgrpc`: its calls, with TLS or on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from phalanx.providers.counted.calls import MOST_BYTES, text_of
from phalanx.providers.counted.cloud_address import CloudAddress, require_pem
from phalanx.providers.counted.cloud_messages import CALLS, message, service
from phalanx.providers.provider import ProviderError
from phalanx.rpc.library import grpc


class NotOffered(ProviderError):
    """The provider does not offer this call."""


class CloudService:
    """The service on an open channel."""

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


def credentials(at: CloudAddress) -> Any:
    """Return the TLS credentials. Raises PhalanxError."""
    files = at.authority, at.key, at.certificate
    return grpc.ssl_channel_credentials(*(None if file is None else require_pem(file) for file in files))
