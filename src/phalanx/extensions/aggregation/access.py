"""Authorize requests: ask the API server with a SubjectAccessReview, as every aggregated API server does.

A verdict, positive or negative, is cached for ten seconds, as in the API server's own library. So a newly granted right
takes effect within ten seconds, and a client that polls does not double the API server's work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from phalanx.client.connection import Connection
from phalanx.client.kind import Kind
from phalanx.extensions.aggregation.front_proxy import Asker

REVIEWS: Final = Kind(
    group="authorization.k8s.io", plural="subjectaccessreviews", name="SubjectAccessReview", namespaced=False
)
COUNTS_S, KEPT = 10.0, 1000
Verdict = tuple[bool, str]  # allowed; the reason, as the authorizer wrote it


class Access:
    """The API server's verdicts, with a cache. `clock_s`: returns the seconds of a monotonic clock."""

    def __init__(self, api: Connection, clock_s: Callable[[], float]) -> None:
        self._api, self._clock_s = api, clock_s
        self._known: dict[tuple[Asker, str, str], tuple[float, Verdict]] = {}

    async def verdict(self, asker: Asker, resource: dict[str, str] | None, path: str) -> Verdict:
        """Return whether the user may get the resource, or the path if `resource` is None. Raises ApiError."""
        key = (asker, path, "" if resource is None else "resource")
        known = self._known.get(key)
        if known is not None and known[0] > self._clock_s():
            return known[1]
        asked: dict[str, Any] = {"resourceAttributes": {"verb": "get", **resource}} if resource is not None else {}
        asked = asked or {"nonResourceAttributes": {"verb": "get", "path": path}}
        spec = {**asked, "user": asker.name, "groups": list(asker.groups)}
        if asker.uid:
            spec["uid"] = asker.uid
        if asker.extra:
            spec["extra"] = {name: list(values) for name, values in asker.extra}
        body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.name, "metadata": {}, "spec": spec}
        said = (await self._api.create(REVIEWS, body)).get("status") or {}
        found = (bool(said.get("allowed")) and not said.get("denied"), str(said.get("reason") or ""))
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[key] = (self._clock_s() + COUNTS_S, found)
        return found
