"""Send requests to the agent of a node: find its address, verify its identity, and return its response.

The address is in the node's status (InternalIP, kubeletEndpoint), as in a real cluster. The API server authenticates
with a token from a file that both programs can read. An agent with TLS must have a certificate that this server's
authority has signed.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Object

if TYPE_CHECKING:
    import aiohttp  # imported at the first request, because its import takes a third of the server's start time

_CONNECT_TIMEOUT_S = 10.0


class NodeClient:
    """Sends requests to the agents of nodes. The caller must call `close`."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def get(self, node: Object, path: str) -> aiohttp.ClientResponse:
        """Return the node's response, without reading its body, if its status is 200. Raises `StatusError` for any
        other response."""
        import aiohttp

        address, port = endpoint_of(node)
        failure: Exception | None = None
        for scheme in ("https", "http"):
            try:
                response = await self._open(f"{scheme}://{address}:{port}{path}", scheme)
            except aiohttp.ClientConnectorCertificateError as error:
                # the certificate is not the node's, so another program listens at this address: send it nothing
                failure = error
                break
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                failure = error
                continue
            if response.status != 200:
                text = await response.text()
                response.release()
                raise refused(response.status, text)
            return response
        raise StatusError(500, "InternalError", f'Get "https://{address}:{port}{path}": {failure}')

    async def _open(self, url: str, scheme: str) -> aiohttp.ClientResponse:
        token = self._settings.kubelet_token.read_text().strip()
        trust: ssl.SSLContext | bool = True
        if scheme == "https":
            trust = ssl.create_default_context(cafile=str(self._settings.ca_certificate))
        return await self.session.get(url, headers={"Authorization": f"Bearer {token}"}, ssl=trust)

    @property
    def session(self) -> aiohttp.ClientSession:
        """Return the pool of connections. There is a time limit for connecting, but none for the response."""
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S)
            self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


def refused(code: int, text: str) -> StatusError:
    """Return the error for the client after a node has refused a request."""
    reasons = {400: "BadRequest", 404: "NotFound", 401: "Unauthorized", 403: "Forbidden"}
    return StatusError(code, reasons.get(code, "InternalError"), text.strip() or f"the node answered {code}")


def endpoint_of(node: Object) -> tuple[str, int]:
    """Return the host and port of the node's agent. Raises `StatusError` 400 if the node's status does not have
    them."""
    status = node.get("status") or {}
    addresses = [one["address"] for one in status.get("addresses") or [] if one.get("type") == "InternalIP"]
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    if not addresses or not port:
        name = node["metadata"]["name"]
        raise bad_request(
            f"node {name} has no address in its status: it is simulated, so that nothing runs on it and no logs exist, "
            "or its agent has not started yet"
        )
    address = addresses[0]
    return (f"[{address}]" if ":" in address else address), port
