"""Point 14 of the protocol: the cache of one kind stays true whatever order answers and watch events arrive in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypedDict

import msgspec
import pytest

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.informer import Change, Informer, key_of
from phalanx.client.kind import PODS
from tests import clockwork


def pod(name: str, version: int, uid: str = "", **fields: Any) -> Object:
    meta = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, **fields}


class Server(Connection):
    """Answers lists and watches from a script; a watch ends, breaks (ApiUnknown) or says 410 as scripted."""

    def __init__(self, lists: Sequence[list[Object]], watches: Sequence[Sequence[Any]]) -> None:
        super().__init__("http://nowhere", headers={}, tls=None)
        self.lists, self.watches = iter(lists), iter(watches)
        self.watched_from: list[str] = []
        self.lists_by_watch = False
        self.done = asyncio.Event()

    async def list(self, kind: Any, namespace: str = "", **params: str) -> Object:
        items = next(self.lists)
        version = max((int(one["metadata"]["resourceVersion"]) for one in items), default=1)
        return {"metadata": {"resourceVersion": str(version)}, "items": items}

    async def pages(self, kind: Any, namespace: str = "", **params: str) -> AsyncIterator[Object]:
        """The list in pages of one object."""
        whole = await self.list(kind, namespace, **params)
        for item in whole["items"] or [None]:
            yield {"metadata": whole["metadata"], "items": [] if item is None else [item]}

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], read_timeout_s: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.watched_from.append(params.get("resourceVersion") or params["resourceVersionMatch"])
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        script = next(self.watches, None)
        if script is None:
            self.done.set()
            await asyncio.Event().wait()
        for event in script or ():
            if event is None:
                raise ApiUnknown("the connection broke")
            yield msgspec.json.encode({"type": event[0], "object": event[1]})


def seen(change: Change) -> str:
    match change.old, change.new:
        case None, new if new is not None:
            return f"+{new['metadata']['name']}"
        case old, None if old is not None:
            return f"-{old['metadata']['name']}"
        case _:
            assert change.new is not None
            return f"~{change.new['metadata']['name']}@{change.new['metadata']['resourceVersion']}"


def follow(server: Server) -> tuple[Informer, list[str]]:
    """What a subscriber was told until the script was over."""

    async def until_done() -> tuple[Informer, list[str]]:
        informer, told = Informer(server, PODS), []
        informer.subscribe(lambda change: told.append(seen(change)))
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(server.done.wait(), 240)
        task.cancel()
        return informer, told

    return clockwork.run(until_done())


def test_a_list_and_then_its_changes() -> None:
    server = Server([[pod("a", 3)]], [[("ADDED", pod("b", 4)), ("MODIFIED", pod("a", 5)), ("DELETED", pod("b", 6))]])
    informer, told = follow(server)
    assert told == ["+a", "+b", "~a@5", "-b"]
    assert list(informer.objects) == ["default/a"]


def test_a_broken_watch_resumes_where_it_was() -> None:
    server = Server([[pod("a", 3)]], [[("BOOKMARK", pod("", 9)), None], [("MODIFIED", pod("a", 10))]])
    _, told = follow(server)
    assert server.watched_from == ["3", "9", "10"]
    assert told == ["+a", "~a@10"]


def test_expired_means_list_again_and_tell_the_difference() -> None:
    gone = {"code": 410, "reason": "Expired", "message": "too old resource version"}
    server = Server([[pod("a", 3), pod("b", 4)], [pod("b", 8), pod("c", 7)]], [[("ERROR", gone)]])
    informer, told = follow(server)
    assert told == ["+a", "+b", "~b@8", "+c", "-a"]
    assert sorted(informer.objects) == ["default/b", "default/c"]


def test_an_event_that_cannot_be_read_ends_no_cache_but_all_are_listed_again(caplog: pytest.LogCaptureFixture) -> None:
    nameless = {"metadata": {"uid": "x", "resourceVersion": "6"}}
    server = Server([[pod("a", 3)], [pod("a", 3), pod("b", 8)]], [[("ADDED", nameless), ("ADDED", pod("c", 7))], []])
    informer, told = follow(server)
    assert told == ["+a", "+b"]
    assert sorted(informer.objects) == ["default/a", "default/b"]
    assert "the server's response about pods cannot be read" in caplog.text


END = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}


def test_a_watch_may_begin_with_what_exists() -> None:
    """KEP-3157: no list is requested; the cache is complete at the bookmark that marks the end of the initial
    events."""
    server = Server([], [[("ADDED", pod("a", 3)), ("BOOKMARK", END), ("MODIFIED", pod("a", 10))], [None]])
    server.lists_by_watch = True
    informer, told = follow(server)
    assert told == ["+a", "~a@10"]
    assert server.watched_from == ["NotOlderThan", "10", "10"]
    assert informer.synced.is_set()


def test_one_that_breaks_before_that_begins_anew_and_what_went_meanwhile_is_told() -> None:
    whole = [("ADDED", pod("b", 4)), ("BOOKMARK", END)]
    server = Server([], [[("ADDED", pod("a", 3)), None], whole])
    server.lists_by_watch = True
    _, told = follow(server)
    assert told == ["+a", "+b", "-a"]
    assert server.watched_from == ["NotOlderThan", "NotOlderThan", "9"]


FIRST_WATCHES: dict[str, list[Any]] = {
    "refuses": [("ERROR", {"code": 422, "reason": "Invalid", "message": "sendInitialEvents is forbidden"})],
    "does not know what is meant": [("ADDED", pod("a", 3))],
    # kube-apiserver 1.36 with etcd 3.5.1
    "fails": [("ERROR", {"code": 500, "reason": "InternalError", "message": "RequestWatchProgress is disabled"})],
}


@pytest.mark.parametrize("how", FIRST_WATCHES)
def test_a_server_that_cannot_is_asked_for_a_list(how: str) -> None:
    first = FIRST_WATCHES[how]
    server = Server([[pod("a", 5)]], [first, [("MODIFIED", pod("a", 6))]])
    server.lists_by_watch = True
    informer, _ = follow(server)
    assert server.watched_from[:2] == ["NotOlderThan", "5"]
    assert informer.objects["default/a"]["metadata"]["resourceVersion"] == "6"


def test_a_busy_server_is_watched_on_from_where_we_were() -> None:
    busy = {"code": 429, "reason": "TooManyRequests", "message": "later"}
    server = Server([[pod("a", 3)]], [[("ERROR", busy)], [("MODIFIED", pod("a", 4))]])
    follow(server)
    assert server.watched_from == ["3", "3", "4"]


def test_a_server_restored_from_a_backup_is_believed() -> None:
    """Its resourceVersions restart below the known ones."""
    gone = {"code": 410, "reason": "Expired", "message": "too new"}
    server = Server([[pod("a", 30), pod("b", 31)], [pod("a", 7, uid="uid-a")]], [[("ERROR", gone)]])
    informer, told = follow(server)
    assert told == ["+a", "+b", "-a", "-b", "+a"]
    assert informer.objects["default/a"]["metadata"]["resourceVersion"] == "7"


class Forbidding(Server):
    """Refuse the given number of lists, and then answer by the script."""

    refusals = 2

    async def list(self, kind: Any, namespace: str = "", **params: str) -> Object:
        if self.refusals:
            self.refusals -= 1
            raise ApiRefusal(403, "Forbidden", "pods is forbidden")
        return await super().list(kind, namespace, **params)


class Forgetful(Server):
    """It forgets the first page before the last is read: 410."""

    async def pages(self, kind: Any, namespace: str = "", **params: str) -> AsyncIterator[Object]:
        yield {"metadata": {"resourceVersion": "9"}, "items": [pod("gone", 3)]}
        raise ApiRefusal(410, "Expired", "too old")


def test_a_list_whose_pages_are_forgotten_is_taken_as_it_is_in_one_piece() -> None:
    server = Forgetful([[pod("a", 10)]], [])
    assert set(follow(server)[0].objects) == {"default/a"}


def test_a_missing_right_is_logged_once_and_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    server = Forbidding([[pod("a", 5)]], [])
    assert follow(server)[1] == ["+a"]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["pods cannot be watched; the watch is retried: pods is forbidden"]


@pytest.fixture
def informer() -> Informer:
    return Informer(Connection("http://nowhere", headers={}, tls=None), PODS)


def test_only_what_is_newer_is_kept(informer: Informer) -> None:
    assert informer.observe(pod("a", 5, phase="new"))
    assert not informer.observe(pod("a", 5)), "the same answer again"
    assert not informer.observe(pod("a", 4)), "a late watch event"
    assert informer.objects["default/a"]["phase"] == "new"


def test_the_answer_to_an_old_write_does_not_raise_the_dead(informer: Informer) -> None:
    informer.observe(pod("a", 5))
    informer.forget(pod("a", 7))
    assert not informer.observe(pod("a", 6))
    assert informer.objects == {}


def test_a_new_object_under_an_old_name_is_another_object(informer: Informer) -> None:
    told: list[str] = []
    informer.observe(pod("a", 5, uid="first"))
    informer.subscribe(lambda change: told.append(seen(change)))
    informer.observe(pod("a", 9, uid="second"))
    assert told == ["+a", "-a", "+a"]
    informer.forget(pod("a", 8, uid="first"))
    assert informer.objects["default/a"]["metadata"]["uid"] == "second"


class Lean(TypedDict, total=False):
    metadata: dict[str, str]
    spec: dict[str, int]


def test_a_lean_watch_keeps_what_it_was_told_to_and_a_spec_once() -> None:
    decode = Informer(Connection("http://nowhere", headers={}, tls=None), PODS, lean=Lean).decode
    lines = [
        b'{"type":"ADDED","object":{"metadata":{"name":"%d"},"spec":{"a":1},"status":{"b":2}}}' % number
        for number in range(2)
    ]
    first, second = (decode(line)["object"] for line in lines)
    assert first == {"metadata": {"name": "0"}, "spec": {"a": 1}}
    assert second["spec"] is first["spec"]
    assert decode(b'{"type":"BOOKMARK","object":{"metadata":{}}}')["object"] == {"metadata": {}}


def test_what_is_not_as_a_lean_watch_expects_is_taken_whole() -> None:
    decode = Informer(Connection("http://nowhere", headers={}, tls=None), PODS, lean=Lean).decode
    for odd in ({"spec": {"a": "x"}}, {"spec": None}, {"metadata": None, "spec": {"a": 1}}):
        event = {"type": "ADDED", "object": odd}
        assert decode(json.dumps(event).encode()) == event


def test_who_follows_in_pieces_hears_all_in_order_and_lets_others_have_their_turn() -> None:
    async def scene() -> None:
        cache = Informer(Server([], []), PODS)
        for number in range(50):
            cache.observe(pod(f"p{number}", number + 1))
        heard: list[tuple[str, int, bool]] = []
        turns: list[int] = []

        def take(change: Change) -> None:
            obj = change.new or change.old or {}
            heard.append((obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"]), change.new is None))

        async def others() -> None:
            while True:
                turns.append(len(heard))
                if len(heard) == 10:
                    cache.observe(pod("p5", 100))  # told already
                    cache.observe(pod("p40", 101))  # not yet: it is told as it is now
                    cache.forget(pod("p41", 102))  # it never was
                    cache.observe(pod("new", 103))
                await asyncio.sleep(0)

        other = asyncio.ensure_future(others())
        await cache.follow(take, most_s=-1.0)
        other.cancel()
        assert len(turns) > 40
        assert sorted(heard) == sorted(
            [(f"p{n}", n + 1, False) for n in range(50) if n not in {40, 41}]
            + [("p5", 100, False), ("p40", 101, False), ("new", 103, False)]
        )
        assert heard.index(("p5", 6, False)) < heard.index(("p5", 100, False))
        cache.forget(pod("p1", 200))
        assert heard[-1] == ("p1", 200, True)

    clockwork.run(scene())


def test_a_subscriber_that_cannot_take_a_change_keeps_it_from_nobody() -> None:
    """The later subscribers and the watch continue, and the failing subscriber gets the next changes."""
    informer, taken = Informer(Server([], []), PODS), dict[str, list[str]](picky=[], other=[])

    def picky(change: Change) -> None:
        assert change.new is not None
        taken["picky"].append(change.new["spec"]["nodeName"])

    informer.observe(pod("early", 1))
    informer.subscribe(picky)
    informer.subscribe(lambda change: taken["other"].append(seen(change)))
    informer.observe(pod("broken", 2))
    informer.observe(pod("sound", 3, spec={"nodeName": "n"}))
    assert taken == {"picky": ["n"], "other": ["+early", "+broken", "+sound"]}


def test_listing_again_tells_what_the_watch_kept_from_us_and_no_more() -> None:
    """`b` went and `c` changed without a word; `d` was made after the list."""

    async def scene() -> None:
        server = Server([[pod("a", 1), pod("b", 2), pod("c", 3)], [pod("a", 1), pod("c", 9)]], [])
        informer, seen = Informer(server, PODS), list[Change]()
        await informer._list()
        informer.observe(pod("d", 12))
        informer.subscribe(seen.append)
        seen.clear()
        await informer.list_again()
        assert {key_of(change.old or {}): change.new is None for change in seen} == {
            "default/b": True,
            "default/c": False,
        }
        assert set(informer.objects) == {"default/a", "default/c", "default/d"}

    asyncio.run(scene())
