"""Get, list and watch objects.

All pages of a list show the objects at the same version. The continue token contains this version, and the key of the
last object on the page. The store can provide this version as long as the store's history reaches back to it. A watch
may begin with a list of the present objects. The server makes this list and opens the watch in one step of the event
loop. So the client misses no change between the two, and gets no change twice.
"""

from __future__ import annotations

import asyncio
import base64
import posixpath
import random
import string
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.selectors import named, predicate
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, shown
from phalanx.embedded.apimachinery.patch.json_patch import go_kind
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.endpoints.parts.known_kinds import empty_object
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Key, Store, Stored, encode
from phalanx.embedded.apiserver.storage.watch import Hub, Watch
from phalanx.embedded.apiserver.transport.go_json import syntax_error
from phalanx.embedded.apiserver.transport.options import EXACT, ListOptions, list_options, not_unsigned
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response

Found = tuple[str, str, Stored]  # namespace, name, object

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ReadEndpoints:
    """Handles get, list and watch."""

    def __init__(self, store: Store, hub: Hub, settings: StoreSettings) -> None:
        self._store, self._hub, self._settings = store, hub, settings

    async def show(self, target: RouteTarget, request: HttpRequest) -> Response:
        """Return the response to a get, list or watch. Raises `StatusError` for options that cannot be satisfied."""
        found, meta = self.page(target, list_options(request, watch=False))
        return await answers.many(target.resource, request, [stored for _, _, stored in found], meta)

    def page(self, target: RouteTarget, options: ListOptions) -> tuple[list[Found], dict[str, object]]:
        """Return one page of a list, with at most `options.limit` objects, and the metadata of the list. Raises
        `StatusError`."""
        matches = predicate(target.resource, options.label_selector, options.field_selector)
        version, found = self._state(target, options)
        if matches is not None:
            found = [one for one in found if matches(one[2].obj)]
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if options.limit and len(found) > options.limit and (options.version != 0 or options.token):
            page, rest = found[: options.limit], len(found) - options.limit
            meta["continue"] = _token(version, page[-1])
            if matches is None:
                meta["remainingItemCount"] = rest
            found = page
        return found, meta

    def _state(self, target: RouteTarget, options: ListOptions) -> tuple[int, list[Found]]:
        """Return the version of the list, and the objects in that version after the last object of the previous
        page."""
        key, namespace = target.resource.key, target.namespace if target.namespace else None
        if not target.resource.namespaced:
            namespace = ""
        if options.token:
            version, after = _parse_token(options.token)
            if options.version:
                raise bad_request("specifying resource version is not allowed when using continue")
            # The version may be higher than the newest one, if another server created the token, or if this server has
            # lost data.
            self._check_not_future(version)
            # a negative version comes from the token in a response 410: continue with the newest version, which may
            # differ from the version of earlier pages
            if version < 0:
                version = self._store.version
            elif version < self._store.horizon:
                raise self._continue_expired(after)
            state = self._store.snapshot(key, namespace, version)
            return version, [one for one in state if (one[0] + "/", one[1]) > (after[0] + "/", after[1])]
        self._check_not_future(options.version)
        exact = options.version_match == EXACT or (options.limit and options.version and not options.version_match)
        if exact and options.version:
            return options.version, self._store.snapshot(key, namespace, options.version)
        if namespace is not None and (name := named(options.field_selector)) is not None:
            stored = self._store.get(key, namespace, name)
            return self._store.version, [(namespace, name, stored)] if stored else []
        return self._store.version, list(self._store.walk(key, namespace))

    def check_version(self, request: HttpRequest) -> None:
        """Check that the server has reached the version that a GET of one object requires. Raises `StatusError` 504 or
        500."""
        if raw := request.text("resourceVersion"):
            if why := not_unsigned(raw):
                raise StatusError(500, "", f"resourceVersion: Invalid value: {shown(raw)}: {why}")
            self._check_not_future(int(raw))

    def _check_not_future(self, version: int | None) -> None:
        if version is not None and version > self._store.version:
            message = f"Too large resource version: {version}, current: {self._store.version}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise StatusError(
                504, "Timeout", f"Timeout: {message}", details={"causes": [cause]}, retry_after_s=1
            )  # fmt: skip

    def _continue_expired(self, after: tuple[str, str]) -> StatusError:
        """Return the error 410. The error contains a token that continues the list after the key `after`, but in the
        newest version. The pages of such a list show different versions."""
        return StatusError(410, "Expired", _CONTINUE_EXPIRED, metadata={"continue": _encode_token(-1, *after)})

    def watch(self, target: RouteTarget, request: HttpRequest) -> Response:
        """Return a stream of events. Raises `StatusError` for options that cannot be satisfied. If the requested
        version is too old, the stream itself reports that, as in kube-apiserver."""
        options = list_options(request, watch=True)
        resource = target.resource
        form = answers.form_of(resource, request, stream=True)
        field_selector = options.field_selector
        if target.name:
            field_selector = f"metadata.name={target.name}" + (f",{field_selector}" if field_selector else "")
        matches = predicate(resource, options.label_selector, field_selector)
        watch = Watch(
            namespace=(target.namespace or None) if resource.namespaced else None,
            matches=matches,
            look=form.look,
            render=form.later or form.one,
            opening=form.one if form.later else None,
            limit_bytes=self._settings.watch_buffer_bytes,
            frame=form.frame,
        )
        try:
            self._begin(target, options, watch)
        except StatusError as error:
            if error.code != 410:
                raise
            watch.send(form.frame("ERROR", form.value(error.status())))
            watch.end()
        stream = _WatchStream(
            self._hub,
            resource.key,
            watch,
            bookmark=(lambda: watch.bookmark(self._bookmark(resource))) if options.bookmarks else None,
            interval_s=self._settings.bookmark_interval_s,
            end_s=options.timeout_s or self._settings.watch_timeout_s * (1 + random.random()),
        )
        return Response(media=form.stream_media, stream=stream)

    def _begin(self, target: RouteTarget, options: ListOptions, watch: Watch) -> None:
        """Give the watch its initial objects or events, and register it, in one step of the event loop, so that the
        watch misses no event."""
        resource = target.resource
        version = options.version
        self._check_not_future(version)
        initial = options.send_initial_events
        if initial is None and not options.version_match:
            initial = not version
        if initial or (initial is None and not version):
            namespace = watch.namespace if resource.namespaced else ""
            last = self._bookmark(resource, initial_end=True) if initial and options.bookmarks else None
            watch.begin(self._store.scan(resource.key, namespace), (), last)
        elif version:
            watch.begin((), self._store.events_since(version, resource.key))
        self._hub.open(resource.key, watch)

    def _bookmark(self, resource: Resource, *, initial_end: bool = False) -> Stored:
        meta: dict[str, Any] = {"resourceVersion": str(self._store.version)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = empty_object(resource) | {"metadata": meta}
        return Stored(self._store.version, encode(obj), obj)


class _WatchStream:
    """The stream of one watch, with two timers: one for the next bookmark, and one for the end of the stream."""

    def __init__(
        self, hub: Hub, key: Key, watch: Watch, *, bookmark: Callable[[], bytes] | None, interval_s: float, end_s: float
    ) -> None:
        self._hub, self._key, self._watch = hub, key, watch
        self._bookmark, self._interval_s = bookmark, interval_s
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(end_s, self._finish)]
        if bookmark is not None:
            self._timers.append(loop.call_later(interval_s, self._remind))

    def _remind(self) -> None:
        assert self._bookmark is not None
        self._watch.send(self._bookmark())
        self._timers[1] = asyncio.get_running_loop().call_later(self._interval_s, self._remind)

    def _finish(self) -> None:
        if self._bookmark is not None:
            self._watch.send(self._bookmark())
        self._watch.end()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        lines = await self._watch.take()
        if lines is None:
            raise StopAsyncIteration
        return lines

    async def aclose(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._hub.close(self._key, self._watch)


# --- continue tokens ---------------------------------------------------------------------------------------------


# the longest accepted token, in characters; tokens of this server have only a version, a namespace and a name
_MOST_SIGNS = 1000
_FORMAT = "meta.k8s.io/v1"
_URL_SAFE = frozenset(string.ascii_letters + string.digits + "-_")


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def _token(version: int, last: Found) -> str:
    return _encode_token(version, last[0], last[1])


def _encode_token(version: int, namespace: str, name: str) -> str:
    raw = encode({"v": _FORMAT, "rv": version, "start": f"{namespace}/{name}"})
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, tuple[str, str]]:
    """Return the version of the list and the key (namespace, name) after which the list continues. Raises `StatusError`
    400 with kube-apiserver's message."""
    strange = next((at for at, sign in enumerate(token) if sign not in _URL_SAFE), -1)
    if strange >= 0 or len(token) % 4 == 1:
        raise _no_token(f"illegal base64 data at input byte {strange if strange >= 0 else len(token) - 1}")
    if len(token) > _MOST_SIGNS:
        raise _no_token("it is too long")
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    if why := syntax_error(data):
        raise _no_token(why)
    try:
        raw = msgspec.json.decode(data, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        kind = go_kind(msgspec.json.decode(data))
        raise _no_token(f"json: cannot unmarshal {kind} into Go value of type storage.continueToken") from None
    if raw.v != _FORMAT:
        raise _no_token(f"server does not recognize this encoded version {raw.v}")
    if not raw.rv:  # only the token in a response 410 has a negative version
        raise _no_token(f"incorrect encoded start resourceVersion (version {_FORMAT})")
    if not raw.start:
        raise _no_token(f"encoded start key empty (version {_FORMAT})")
    key = raw.start if raw.start.startswith("/") else f"/{raw.start}"
    if key.startswith("//") or posixpath.normpath(key) != key:
        raise _no_token(raw.start)
    namespace, _, name = raw.start.partition("/")
    return raw.rv, (namespace, name)


def _no_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
