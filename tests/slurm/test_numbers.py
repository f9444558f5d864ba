"""Job numbers on API servers that do not assign them, and dependencies in the words of sbatch."""

from __future__ import annotations

import pytest

from phalanx.slurm.cluster.api import JOBS
from phalanx.slurm.cluster.site import PATH
from phalanx.slurm.jobs.ask import ARRAY
from phalanx.slurm.jobs.names import name_of, path_of
from phalanx.slurm.submission.numbers import NAME, DependencyError, Needs, read, take
from tests.slurm.fake_api import FakeApi


def test_numbers_follow_each_other_from_the_first_of_the_site() -> None:
    api = FakeApi()
    assert [take(api, 1, 100), take(api, 3, 100), take(api, 1, 100)] == [100, 101, 104]
    assert take(api, 1, 500) == 500, "the first number was raised"


def test_who_comes_second_draws_again() -> None:
    api = FakeApi({f"{PATH}/{NAME}": {"metadata": {"name": NAME}, "data": {"next": "7"}}}, stale=1)
    assert take(api, 2, 1) == 7
    assert api.objects[f"{PATH}/{NAME}"]["data"] == {"next": "9"}


def test_numbers_that_the_server_assigns_are_taken() -> None:
    api = FakeApi({"/slurm/v1/numbers": {"first": 41}})
    assert take(api, 2, 1) == 41
    assert list(api.objects) == ["/slurm/v1/numbers"]


def api(*tasks: int, jobs: tuple[int, ...] = ()) -> FakeApi:
    """Jobs of these numbers, and an array 10 with these tasks."""
    items = [
        {
            "metadata": {
                "name": f"{name_of(10)}-{task}",
                "labels": {},
                "annotations": {"batch.kubernetes.io/task": str(task)},
            }
        }
        for task in tasks
    ]
    return Listed({path_of(number): {} for number in jobs}, items)


class Listed(FakeApi):
    def __init__(self, objects: dict[str, object], items: list[object]) -> None:
        super().__init__(objects)
        self.items = items

    def get(self, path: str, **query: str) -> dict[str, object]:
        assert path == JOBS
        return {"items": self.items if query["labelSelector"] == f"{ARRAY}=10" else []}


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("", Needs()),
        ("singleton", Needs(singleton=True, shown="singleton(unfulfilled)")),
        ("7", Needs(after=f"{name_of(7)}:any", shown="afterany:7(unfulfilled)")),
        (
            "afterok:7:8,afternotok:7",
            Needs(
                after=f"{name_of(7)}:ok,{name_of(8)}:ok,{name_of(7)}:not-ok",
                shown="afterok:7(unfulfilled),afterok:8(unfulfilled),afternotok:7(unfulfilled)",
            ),
        ),
        (
            "after:7+5?afterany:8",
            Needs(
                after=f"{name_of(7)}:start,{name_of(8)}:any",
                either=True,
                shown="after:7+5(unfulfilled)?afterany:8(unfulfilled)",
            ),
        ),
        ("afterok:99", Needs()),  # a number that nobody knows counts as met
        ("afterany:10", Needs(after=f"{name_of(10)}-1:any,{name_of(10)}-2:any", shown="afterany:10(unfulfilled)")),
    ],
)
def test_dependencies(text: str, needs: Needs) -> None:
    assert read(api(1, 2, jobs=(7, 8)), text) == needs


@pytest.mark.parametrize("text", ["afterok", "afterok:", "before:7", "afterok:x", "afterok:7+1", "²", "7,"])
def test_what_is_no_dependency(text: str) -> None:
    with pytest.raises(DependencyError, match="Job dependency problem"):
        read(api(jobs=(7,)), text)


def test_a_job_does_not_wait_for_itself_and_may_wait_for_a_number_that_is_to_come() -> None:
    with pytest.raises(DependencyError):
        read(api(), "afterok:7", own=7)
    assert read(api(), "afterok:9", own=7).after == f"{name_of(9)}:ok"
