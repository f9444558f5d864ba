"""`controllers/operators/install.py`: the definitions of the operators' kinds, installed where they are missing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.operators import install
from phalanx.embedded.controllers.operators.install import definitions, install_operators
from phalanx.embedded.controllers.operators.training.definition import definition

MISSING = ApiRefusal(404, "NotFound", "the server could not find the requested resource")
EXISTS = ApiRefusal(409, "AlreadyExists", "it already exists")


class Api:
    """An API server. `refuse(verb, name)` returns the error of a call, or None. `calls`: verb and name of each call."""

    def __init__(self, refuse: Callable[[str, str], Exception | None] = lambda verb, name: None) -> None:
        self._refuse = refuse
        self.calls: list[tuple[str, str]] = []
        self.pauses_s: list[float] = []

    def _answer(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        if (error := self._refuse(verb, name)) is not None:
            raise error

    async def create(self, kind: Kind, body: Any) -> None:
        self._answer("create", body["metadata"]["name"])

    async def list(self, kind: Kind, limit: str = "") -> None:
        assert limit == "1"
        self._answer("list", f"{kind.plural}.{kind.group}")

    def count(self, verb: str) -> Counter[str]:
        return Counter(name for made, name in self.calls if made == verb)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Api], None]:
    """Install on an API server, without pauses."""
    sleep = asyncio.sleep

    def run(api: Api) -> None:
        async def pause(pause_s: float) -> None:
            api.pauses_s.append(pause_s)
            await sleep(0)

        monkeypatch.setattr(install.asyncio, "sleep", pause)
        connection: Any = api
        asyncio.run(install_operators(connection))

    return run


def names() -> list[str]:
    return [one["metadata"]["name"] for one in definitions()]


def failing(times: int, verb: str, error: Exception) -> Callable[[str, str], Exception | None]:
    """Refuse the first calls of this verb for each name."""
    seen = Counter[str]()

    def refuse(asked: str, name: str) -> Exception | None:
        if asked != verb:
            return None
        seen[name] += 1
        return error if seen[name] <= times else None

    return refuse


# --- the definitions --------------------------------------------------------------------------------------------------


def test_each_kind_is_defined_once_under_its_own_name() -> None:
    for body in definitions():
        spec = body["spec"]
        assert body["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
        [stored] = [version["name"] for version in spec["versions"] if version["storage"]]
        assert all(version["served"] for version in spec["versions"] if version["name"] == stored)
    assert len(names()) == len(set(names()))
    assert definition()["metadata"]["name"] in names()
    assert {"jobsets.jobset.x-k8s.io", "mpijobs.kubeflow.org", "trainjobs.trainer.kubeflow.org"} <= set(names())


def test_every_kind_requires_a_spec_but_a_job_set_gets_one() -> None:
    for body in definitions():
        for version in body["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            if body["spec"]["names"]["kind"] == "JobSet":
                assert schema["properties"]["spec"]["default"] == {}
            elif body != definition():
                assert "spec" in schema["required"]
                assert schema["required"] == sorted(schema["required"])


def test_pod_templates_have_types() -> None:
    """The published definitions have them; the stored file leaves them out."""
    [job_set] = [one for one in definitions() if one["spec"]["names"]["kind"] == "JobSet"]
    schema = job_set["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    job = schema["replicatedJobs"]["items"]["properties"]["template"]["properties"]["spec"]["properties"]
    containers = job["template"]["properties"]["spec"]["properties"]["containers"]
    assert containers["items"]["properties"]["image"]["type"] == "string"


def test_definitions_are_new_objects_at_each_call() -> None:
    definitions()[1]["spec"].clear()
    assert definitions()[1]["spec"]


# --- installing -------------------------------------------------------------------------------------------------------


def test_each_definition_is_created_and_its_kind_is_served(installed: Callable[[Api], None]) -> None:
    api = Api()
    installed(api)
    assert api.count("create") == api.count("list") == Counter(names())


def test_an_existing_definition_is_not_changed(installed: Callable[[Api], None]) -> None:
    api = Api(lambda verb, name: EXISTS if verb == "create" else None)
    installed(api)
    assert api.count("create") == Counter(names())
    assert {verb for verb, _ in api.calls} == {"create", "list"}


def test_it_waits_until_a_kind_is_served_and_creates_it_once(installed: Callable[[Api], None]) -> None:
    api = Api(failing(3, "list", MISSING))
    installed(api)
    assert set(api.count("create").values()) == {1}
    assert set(api.count("list").values()) == {4}


@pytest.mark.parametrize("verb", ["create", "list"])
def test_a_call_without_an_answer_is_repeated(installed: Callable[[Api], None], verb: str) -> None:
    api = Api(failing(2, verb, ApiUnknown("the answer was lost")))
    installed(api)
    assert set(api.count(verb).values()) == {3}


@pytest.mark.parametrize("verb", ["create", "list"])
def test_a_refusal_is_an_error_at_once(installed: Callable[[Api], None], verb: str) -> None:
    api = Api(lambda asked, name: ApiRefusal(403, "Forbidden", "no") if asked == verb else None)
    with pytest.raises(ApiRefusal, match="no"):
        installed(api)
    assert api.pauses_s == []


@pytest.mark.parametrize("error", [MISSING, ApiUnknown("away")])
def test_a_server_that_never_serves_a_kind_is_given_up(installed: Callable[[Api], None], error: Exception) -> None:
    api = Api(lambda verb, name: error if verb == "list" else None)
    with pytest.raises(type(error)):
        installed(api)
    assert max(api.count("list").values()) == 41, "after 20 short pauses and 20 long ones"
