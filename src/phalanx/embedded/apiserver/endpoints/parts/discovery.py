"""The discovery documents."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH as APPLY_PATCH
from phalanx.embedded.apiserver.registry.discovery import Catalogue
from phalanx.embedded.apiserver.registry.routing import Registry, method_not_allowed
from phalanx.embedded.apiserver.storage.store import decode
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response


class Discovery:
    """The discovery documents: /api, /apis and /openapi. `last`: a function that returns the groups that the documents
    list last."""

    def __init__(self, registry: Registry, last: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._registry, self._catalogue = registry, Catalogue(registry, last)

    def answer(self, request: HttpRequest, path: str) -> Response | None:
        """Return the response of discovery; None if the path does not belong to discovery. Raises `StatusError` 405,
        406."""
        found = self._catalogue.answer(path, request.accept, request.host)
        if found is None:
            return None
        if request.method != "GET" and not (path.startswith("/openapi") or self._is_aggregated(path)):
            raise method_not_allowed()
        if not request.accept and not path.startswith("/openapi"):
            raise negotiation.not_acceptable()
        if path not in ("/api", "/apis") and request.accept and all(one.as_kind for one in request.accept):
            raise negotiation.no_such_form()
        if request.accept and request.accept[0].media != negotiation.JSON and found.media == negotiation.JSON:
            media, body = negotiation.render(request.accept, decode(found.body))
            return Response(body=body, media=media, headers=((b"vary", b"Accept"),))
        headers = ((b"etag", found.etag.encode()), (b"vary", b"Accept"))
        return Response(body=found.body, media=found.media, headers=headers)

    def _is_aggregated(self, path: str) -> bool:
        """Return True if kube-apiserver's aggregator responds at `path`. The aggregator ignores the HTTP method."""
        _, root, *below = path.split("/")
        return root == "apis" and (len(below) < 2 or not self._registry.builds_in(below[0]))
