"""`endpoints/paths/slurm_numbers.py`: each job number is drawn once, and by the user of its Job."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.embedded.apiserver.endpoints.paths import slurm_numbers
from phalanx.embedded.apiserver.endpoints.paths.slurm_numbers import AHEAD, LAST, SlurmNumbers
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.request import HttpRequest, parse_query
from tests.embedded.apiserver.inprocess import InProcess, Scene, played
from tests.embedded.apiserver.registry.kinds.writes import resource

ADA, BOB = User(name="ada"), User(name="bob")
ADMIN, CONTROLLER = User(name="root", groups=(MASTERS,)), User(name="system:job-controller", groups=(MASTERS,))
MAPS, JOBS = "/api/v1/namespaces/kube-system/configmaps", "/apis/batch/v1/namespaces/default/jobs"
NUMBER, MERGE = "slurm.phalanx.dev/number", "application/merge-patch+json"


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scene], None]]:
    with played(tmp_path_factory.mktemp("api")) as play:
        yield play


@pytest.fixture
def play(one_server: Callable[[Scene], None]) -> Iterator[Callable[[Scene], None]]:
    """Begin each test without numbers and without Jobs."""
    yield one_server
    one_server(emptied)


async def emptied(server: InProcess) -> None:
    await server.ask("DELETE", f"{JOBS}?propagationPolicy=Background")
    for name in ("phalanx-slurm-number", "phalanx-slurm"):
        await server.ask("DELETE", f"{MAPS}/{name}")


def numbers(server: InProcess, clock_s: Callable[[], float] = lambda: 0.0) -> SlurmNumbers:
    """Return the numbers of a server that starts now."""
    return SlurmNumbers(server.api.engine.store, server.api.engine.writer, resource("configmaps"), clock_s)


async def draw(drawing: SlurmNumbers, count: str = "1", user: User = ADA, method: str = "POST") -> int:
    query = parse_query(f"count={count}".encode())
    path = "/slurm/v1/numbers"
    answer = await drawing.answer(HttpRequest(method=method, path=path, query=query, user=user, accept=accepted("")))
    return int(json.loads(answer.body)["first"])


async def refusal(drawing: SlurmNumbers, *how: Any, **more: Any) -> StatusError:
    with pytest.raises(StatusError) as raised:
        await draw(drawing, *how, **more)
    return raised.value


def job(number: object) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": f"slurm-{number}", "labels": {NUMBER: str(number)}}, "spec": {"template": template}}


async def store(server: InProcess, name: str, key: str, text: str) -> None:
    """Write a ConfigMap of the site, as an administrator does."""
    body = {"metadata": {"name": name}, "data": {key: text}}
    if (await server.ask("POST", MAPS, body)).code != 201:
        await server.ask("PATCH", f"{MAPS}/{name}", body, MERGE)


def guarded(drawing: SlurmNumbers, user: User, number: object, old: object = None) -> str:
    """Return why the user may not write this Job; "" if the write is allowed. `old`: the number of the Job before."""
    try:
        drawing.guard(resource("jobs", "batch"), job(number), None if old is None else job(old), user)
    except StatusError as error:
        return error.message if error.code == 403 else str(error.code)
    return ""


# --- draws ------------------------------------------------------------------------------------------------------------


def test_numbers_follow_each_other_from_the_first_of_the_site(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await store(server, "phalanx-slurm", "site", '{"first_job": 500, "max_array": 10}')
        drawing = numbers(server)
        assert [await draw(drawing, count) for count in ("1", "10", "1")] == [500, 501, 511]

    play(scene)


@pytest.mark.parametrize("text", ["{", '{"first_job": "x"}', "[]"])
def test_a_site_that_cannot_be_read_has_slurms_defaults(play: Callable[[Scene], None], text: str) -> None:
    async def scene(server: InProcess) -> None:
        await store(server, "phalanx-slurm", "site", text)
        drawing = numbers(server)
        assert await draw(drawing) == 1
        assert "1 to 1001 numbers" in (await refusal(drawing, "1002")).message

    play(scene)


@pytest.mark.parametrize("count", ["0", "-1", "x", "", "1.5", "%C2%B2", "1002", "99999999999999999999"])
def test_a_count_that_no_array_can_have_is_refused(play: Callable[[Scene], None], count: str) -> None:
    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        error = await refusal(drawing, count)
        assert error.code == 400
        assert error.message.endswith("a draw has 1 to 1001 numbers (MaxArraySize)")
        assert await draw(drawing) == 1, "no number is lost"

    play(scene)


def test_a_draw_is_a_post(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        assert (await refusal(numbers(server), method="GET")).code == 405

    play(scene)


def test_concurrent_draws_share_no_number(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        firsts = await asyncio.gather(*(draw(drawing, "3") for _ in range(20)))
        assert sorted(firsts) == list(range(1, 61, 3))

    play(scene)


def test_a_server_that_starts_again_skips_few_numbers_and_repeats_none(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        last = await draw(numbers(server))
        again = await draw(numbers(server))
        assert last < again <= last + 1 + AHEAD

    play(scene)


def test_an_administrator_moves_the_next_number(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        await draw(drawing)
        await store(server, "phalanx-slurm-number", "next", "7000")
        assert [await draw(drawing), await draw(drawing)] == [7000, 7001]
        await store(server, "phalanx-slurm-number", "next", "no number")
        assert await draw(drawing) == 1

    play(scene)


def test_after_the_last_number_those_of_jobs_are_skipped(play: Callable[[Scene], None]) -> None:
    """Later draws skip these numbers too. The number of a Job may be anywhere in the range."""

    async def scene(server: InProcess) -> None:
        for number in (2, 5):
            await server.make(JOBS, job(number))
        await store(server, "phalanx-slurm-number", "next", str(LAST - 1))
        drawing = numbers(server)
        assert await draw(drawing, "2") == 3, "1 and 2 are not two free numbers in a row"
        assert await draw(drawing) == 6
        await server.make(JOBS, job(7))
        assert await draw(drawing) == 8
        await server.make(JOBS, job(9))
        await server.ask("DELETE", f"{JOBS}/slurm-9?propagationPolicy=Background")
        assert drawing._job_counts is not None
        assert 9 not in drawing._job_counts, "the number of a deleted Job takes no memory"
        assert await draw(drawing) == 9, "the number of a deleted Job is free"
        change = {"metadata": {"labels": {NUMBER: "10"}}}
        await server.ask("PATCH", f"{JOBS}/slurm-7", change, MERGE)  # an administrator may do so
        assert await draw(drawing) == 11

    play(scene)


def test_a_draw_of_an_admin_costs_no_more_for_more_numbers(play: Callable[[Scene], None]) -> None:
    """Admins draw without a limit, and the server handles no other request during a draw."""

    async def scene(server: InProcess) -> None:
        for number in (3, 4):
            await server.make(JOBS, job(number))
        drawing = numbers(server)
        began_s = time.process_time()
        assert await draw(drawing, str(LAST - 6), ADMIN) == 5
        assert time.process_time() - began_s < 1.0  # a loop over the numbers takes several seconds

    play(scene)


def test_a_number_of_two_jobs_is_free_without_both(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        assert await draw(drawing) == 1
        other = job(2)
        other["metadata"]["name"] = "other"
        for made in (job(2), other):
            await server.make(JOBS, made)
        for name, free in (("other", 3), ("slurm-2", 2)):
            await server.ask("DELETE", f"{JOBS}/{name}?propagationPolicy=Background")
            await store(server, "phalanx-slurm-number", "next", "2")
            assert await draw(drawing) == free

    play(scene)


def test_a_range_that_reaches_past_the_last_number_starts_at_the_first(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(JOBS, job(LAST - 2))
        await store(server, "phalanx-slurm-number", "next", str(LAST - 3))
        drawing = numbers(server)
        assert await draw(drawing, "2") == 1, "the Job is in the way of the last numbers"

    play(scene)


# --- limits of users --------------------------------------------------------------------------------------------------


def test_a_user_has_a_limited_number_of_drawn_numbers_without_job(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_numbers, "MOST_UNUSED", 3)

    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        first = await draw(drawing, "2")
        error = await refusal(drawing, "2")
        assert (error.code, error.retry_after_s) == (429, 60)
        assert error.message == "ada has drawn 2 job numbers that no Job has; at most 3 are allowed"
        assert await draw(drawing, "3", BOB) == first + 2, "each user has a limit of his own"
        assert await draw(drawing, "50", ADMIN) == first + 5
        await server.make(JOBS, job(first))
        await draw(drawing, "2")  # one of the three numbers belongs to a Job by now

    play(scene)


def test_drawn_numbers_are_forgotten_after_a_day(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_numbers, "MOST_UNUSED", 2)
    now_s = [0.0]

    async def scene(server: InProcess) -> None:
        drawing = numbers(server, lambda: now_s[0])
        first = await draw(drawing, "2")
        now_s[0] = 86_400.0
        assert (await refusal(drawing)).code == 429
        assert guarded(drawing, ADA, first) == ""
        now_s[0] += 1.0
        await draw(drawing, "2")
        assert "has not drawn" in guarded(drawing, ADA, first)

    play(scene)


# --- the numbers of Jobs ----------------------------------------------------------------------------------------------


def test_a_job_has_a_number_that_its_user_has_drawn(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        first = await draw(drawing, "3")
        assert [guarded(drawing, ADA, first + more) for more in range(3)] == ["", "", ""]
        for wrong in (first + 3, first - 1, "x", "²", "9" * 40):
            assert "has not drawn the job number" in guarded(drawing, ADA, wrong), wrong
        assert "bob has not drawn" in guarded(drawing, BOB, first)
        assert guarded(drawing, ADMIN, 12345) == ""
        assert "has not drawn" in guarded(drawing, CONTROLLER, 12345), "a template may have any label"

    play(scene)


def test_the_number_of_a_job_does_not_change(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        first = await draw(drawing, "2")
        assert guarded(drawing, ADA, first, first) == ""
        assert "cannot be changed" in guarded(drawing, ADA, first + 1, first)
        assert "cannot be changed" in guarded(drawing, ADA, "", first)

    play(scene)


def test_other_kinds_and_jobs_without_a_number_are_not_checked(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        drawing = numbers(server)
        assert guarded(drawing, ADA, 77)  # a Job with this number is refused
        drawing.guard(resource("jobs", "batch"), {"metadata": {}}, None, ADA)
        drawing.guard(resource("configmaps"), job(77), None, ADA)

    play(scene)


# --- a Secret and a Job in one request --------------------------------------------------------------------------------


def test_a_submission_creates_both_objects_or_neither(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        path = "/slurm/v1/submissions?namespace=default"
        secret = {"metadata": {"name": "slurm-8"}, "stringData": {"script": "x"}}
        assert (await server.ask("POST", path, {"secret": secret, "job": job(8)})).code == 201
        made = (await server.ask("GET", f"{JOBS}/slurm-8")).body["metadata"]
        kept = (await server.ask("GET", "/api/v1/namespaces/default/secrets/slurm-8")).body["metadata"]
        [owner] = kept["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Job", made["uid"])
        wrong = job(9) | {"spec": {}}
        other = {**secret, "metadata": {"name": "slurm-9"}}
        assert (await server.ask("POST", path, {"secret": other, "job": wrong})).code == 422
        assert (await server.ask("GET", "/api/v1/namespaces/default/secrets/slurm-9")).code == 404

    play(scene)


@pytest.mark.parametrize(
    ("method", "query", "body", "code"),
    [
        ("GET", "?namespace=default", None, 405),
        ("POST", "", {"secret": {}, "job": {}}, 400),
        ("POST", "?namespace=default", {"job": {}}, 400),
        ("POST", "?namespace=default", {"secret": {}, "job": {}, "pod": {}}, 400),
        ("POST", "?namespace=default", [], 400),
        ("POST", "?namespace=default&dryRun=All", {"secret": {}, "job": {}}, 400),
        ("POST", "?namespace=gone", {"secret": {"metadata": {"name": "s"}}, "job": job(3)}, 404),
    ],
)
def test_a_wrong_submission_is_refused(
    play: Callable[[Scene], None], method: str, query: str, body: Any, code: int
) -> None:
    async def scene(server: InProcess) -> None:
        assert (await server.ask(method, f"/slurm/v1/submissions{query}", body)).code == code

    play(scene)
