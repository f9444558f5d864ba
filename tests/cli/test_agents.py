"""`cli/views/page/agents.py`: what the page does for a viewer, with the viewer's own rights."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.views.page import agents
from phalanx.cli.views.page.agents import ClusterAgent, admitted, user_of
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.client.kind import JOBS, PODS
from phalanx.dashboard.access import SessionEnded
from phalanx.dashboard.sign_in import Token, Vouched
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import HOLD, JOB_NAME, NICE
from tests.cli.fake_target import Selecting
from tests.kube.double import Api, Object, job, pod


def visible(monkeypatch: pytest.MonkeyPatch, namespaces: Collection[str], error: Exception | None = None) -> list[str]:
    """Let the viewer list these namespaces ("": all). Return the namespaces that were asked for."""
    asked: list[str] = []

    async def may_list(connection: Any, namespace: str) -> bool:
        asked.append(namespace)
        if error is not None:
            raise error
        return namespace in namespaces

    monkeypatch.setattr(agents, "may_list", may_list)
    return asked


def sees(namespaces: Collection[str]) -> frozenset[str] | None:
    return asyncio.run(ClusterAgent(SimpleNamespace()).sees(namespaces))


def test_a_viewer_sees_the_namespaces_that_the_viewer_may_list(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = visible(monkeypatch, {"a", "c"})
    assert sees({"a", "b", "c"}) == {"a", "c"}
    assert asked == ["", "a", "b", "c"]


def test_who_may_list_everything_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = visible(monkeypatch, {""})
    assert sees({"a", "b"}) is None
    assert asked == [""]


def test_credentials_that_the_cluster_does_not_know_any_more_end_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    visible(monkeypatch, (), ApiRefusal(401, "Unauthorized", "no"))
    with pytest.raises(SessionEnded):
        sees({"a"})
    visible(monkeypatch, (), ApiRefusal(500, "", "no"))
    with pytest.raises(ApiRefusal):
        sees({"a"})


@pytest.fixture
def api() -> Api:
    found = Api()
    found.put(JOBS, job("train", 1))
    return found


def act(api: Api, named: str, action: Any, value: int = 0) -> str:
    return asyncio.run(ClusterAgent(Selecting(api)).act(named, action, value))


def test_each_action_changes_the_job_and_says_so(api: Api) -> None:
    assert act(api, "default/train", "hold") == "default/train was held"
    assert api.job("train")["metadata"]["annotations"][HOLD] == "true"
    assert act(api, "default/train", "release") == "default/train was released"
    assert HOLD not in api.job("train")["metadata"]["annotations"]
    assert act(api, "default/train", "nice", 7) == "default/train has the nice value 7"
    assert api.job("train")["metadata"]["annotations"][NICE] == "7"
    assert act(api, "default/train", "cancel") == "default/train was cancelled"
    assert "default/train" not in api.objects[JOBS]


@pytest.mark.parametrize("action", ["cancel", "hold", "nice"])
def test_a_job_that_has_ended_is_not_changed(api: Api, action: str) -> None:
    over = job("over", 1)
    over["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    api.put(JOBS, over)
    with pytest.raises(PhalanxError, match=r"default/over is complete.*Nothing was (done|changed)"):
        act(api, "default/over", action)
    assert api.writes == []


def test_a_bare_pod_has_its_own_form_of_a_name(api: Api) -> None:
    api.put(PODS, pod("train", queue="default"))  # as the Job
    assert act(api, "default/pod:train", "cancel") == "default/pod:train was cancelled"
    assert api.objects[PODS] == {}
    assert "default/train" in api.objects[JOBS]


def measured(name: str, **usage: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "containers": [{"name": "c", "usage": usage}, {}]}


class Measuring(Selecting):
    """A cluster with a metrics server. `refusal`: the code with which it refuses."""

    def __init__(self, api: Api, refusal: int = 0, *found: Object) -> None:
        super().__init__(api)
        self._refusal, self._found = refusal, found

    async def list(self, kind: Any, namespace: str = "", **selectors: str) -> Object:
        if kind is not agents.METRICS:
            return await super().list(kind, namespace, **selectors)
        if self._refusal:
            raise ApiRefusal(self._refusal, "", "no")
        return {"items": list(self._found)}


def of_train(name: str) -> Object:
    made = pod(name, node="n")
    made["metadata"]["labels"] = {JOB_NAME: "train"}
    return made


def use(client: Measuring) -> Any:
    return asyncio.run(ClusterAgent(client).use("default/train"))


def test_the_use_of_a_job_is_that_of_its_pods(api: Api) -> None:
    api.put(PODS, of_train("train-0"))
    client = Measuring(api, 0, measured("train-0", cpu="1500m", memory="2Gi"), measured("gone", cpu="9"))
    [(_, cores, gib)] = use(client)
    assert (cores, gib) == (1.5, 2.0)


def test_a_cluster_that_measures_nothing_shows_no_use(api: Api) -> None:
    api.put(PODS, of_train("train-0"))
    for code in (403, 404):
        assert use(Measuring(api, code)) == ()
    with pytest.raises(ApiRefusal):
        use(Measuring(api, 500))


def test_output_is_bounded_and_begins_after_the_last_line_that_the_page_has(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_MOST_LINES", 2)
    monkeypatch.setattr(agents, "_LINE_CHARS", 3)
    wishes: list[Any] = []

    async def read_lines(connection: Any, sources: Any, wish: Any) -> Any:
        wishes.append(wish)
        for stamp in ("1", "2", "3", "4"):
            yield stamp, SimpleNamespace(label="a"), f"line {stamp}"

    monkeypatch.setattr(agents, "read_lines", read_lines)
    agent = ClusterAgent(Selecting(api))
    api.put(PODS, of_train("train-0"))
    assert asyncio.run(agent.output("default/train", "")) == [("3", "a", "lin"), ("4", "a", "lin")]
    assert asyncio.run(agent.output("default/train", "3")) == [("4", "a", "lin")]
    assert [(wish.tail, wish.since) for wish in wishes] == [(200, ""), (None, "3")]


def test_output_that_takes_too_long_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_lines(connection: Any, sources: Any, wish: Any) -> Any:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(agents, "read_lines", read_lines)
    monkeypatch.setattr(agents, "_READING_S", 0.01)
    api.put(PODS, of_train("train-0"))
    with pytest.raises(PhalanxError, match=r"the output of default/train was not read within 0\.01 s; try again"):
        asyncio.run(ClusterAgent(Selecting(api)).output("default/train", ""))


class Reviewer:
    """A connection whose server answers a SelfSubjectReview. `closed`: True if it was closed."""

    def __init__(self, answer: Any) -> None:
        self._answer, self.closed = answer, False
        self.identity: Any = None

    def with_token(self, text: str) -> Reviewer:
        self.identity = text
        return self

    def acting_as(self, user: str, groups: Any) -> Reviewer:
        if "\n" in user:
            raise PhalanxError("a name has no line ends")
        self.identity = (user, groups)
        return self

    async def create(self, kind: Any, body: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def close(self) -> None:
        self.closed = True


def review(name: str) -> Any:
    return {"status": {"userInfo": {"username": name}}}


def entered(reviewer: Any, credential: Any) -> Any:
    return asyncio.run(admitted(reviewer, credential, "sqlite:///x"))


@pytest.mark.parametrize("credential", [Token("secret"), Vouched("ada", ("team",))])
def test_a_viewer_has_the_name_that_the_server_knows_and_sees_nothing_at_first(credential: Any) -> None:
    reviewer = Reviewer(review("ada@example"))
    viewer = entered(reviewer, credential)
    assert (viewer.name, viewer.namespaces) == ("ada@example", frozenset())
    assert reviewer.identity in ("secret", ("ada", ("team",)))
    assert not reviewer.closed
    asyncio.run(viewer.agent.close())
    assert reviewer.closed  # the connection ends with the viewer's session


@pytest.mark.parametrize("answer", [ApiRefusal(401, "", "no"), ApiRefusal(403, "", "no"), review("system:anonymous")])
def test_who_is_not_known_is_not_admitted(answer: Any) -> None:
    for credential in (Token("secret"), Vouched("ada", ())):
        reviewer = Reviewer(answer)
        assert entered(reviewer, credential) is None
        assert reviewer.closed


@pytest.mark.parametrize("answer", [ApiUnknown("away"), {"status": {}}, {"status": None}])
def test_a_server_that_does_not_answer_is_an_error_and_no_refusal(answer: Any) -> None:
    reviewer = Reviewer(answer)
    with pytest.raises((PhalanxError, KeyError, TypeError)):
        entered(reviewer, Token("secret"))
    assert reviewer.closed


def test_an_identity_that_no_request_can_name_is_refused() -> None:
    assert entered(Reviewer(review("x")), Vouched("ada\nroot", ())) is None


def test_the_page_of_one_viewer_does_not_close_its_connection() -> None:
    reviewer = Reviewer(review("ada"))
    asyncio.run(ClusterAgent(reviewer).close())  # type: ignore[arg-type]  # a double
    assert not reviewer.closed


@pytest.mark.parametrize("answer", [ApiUnknown("away"), ApiRefusal(404, "", ""), {}, {"status": None}])
def test_without_an_answer_the_user_of_the_machine_is_named(answer: Any) -> None:
    assert asyncio.run(user_of(Reviewer(review("ada")))) == "ada"  # type: ignore[arg-type]  # a double
    assert asyncio.run(user_of(Reviewer(answer))) == getpass.getuser()  # type: ignore[arg-type]  # a double
