"""Which jobs a command means: its ids, its options, and the states."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest

from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.chosen import Chosen, Id, NoJob, chosen, is_user, read_ids, read_states
from phalanx.slurm.jobs.view import JobInfo


def job(number: int = 12, nodes: tuple[str, ...] = (), state: str = "RUNNING", **asked: Any) -> JobInfo:
    words = {"name": "Train", "user": "ada", "uid": 1, "gid": 1, "group": "g", "account": "lab", "partition": "p"}
    return JobInfo(number=number, ask=Ask(**{**words, **asked}), state=state, nodes=nodes)


def test_ids_of_jobs_tasks_and_components() -> None:
    assert read_ids("12,13_4,14_[1-3,7%2],,15+1") == [
        Id(number=12),
        Id(number=13, tasks=frozenset({4})),
        Id(number=14, tasks=frozenset({1, 2, 3, 7})),
        Id(number=15, offset=1),
    ]


@pytest.mark.parametrize("text", ["x", "12_", "12_[3-1]", "12_[]", "-1", "12.0", "12+"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(NoJob):
        read_ids(text)


def test_an_array_is_meant_by_its_number_and_a_task_by_its_index() -> None:
    task = job(13, array=12, task=3)
    assert Chosen(ids=tuple(read_ids("12"))).has(task)
    assert Chosen(ids=tuple(read_ids("13"))).has(task)
    assert Chosen(ids=tuple(read_ids("12_[1-3]"))).has(task)
    assert not Chosen(ids=tuple(read_ids("12_4"))).has(task)
    assert not Chosen(ids=tuple(read_ids("13_3"))).has(task)


def test_a_component_is_meant_by_its_offset_and_all_by_the_first_number() -> None:
    part = job(13, het=12, het_offset=1, het_size=2)
    assert Chosen(ids=tuple(read_ids("12+1"))).has(part)
    assert Chosen(ids=tuple(read_ids("12"))).has(part)
    assert not Chosen(ids=tuple(read_ids("12+0"))).has(part)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, True),
        ({"user": "ada,bob"}, True),
        ({"user": "bob"}, False),
        ({"account": "LAB"}, True),  # names of accounts are lower case
        ({"partition": "q"}, False),
        ({"name": "train"}, False),
        ({"nodelist": "n[1-2]"}, True),
        ({"nodelist": "n3"}, False),
        ({"user": "ada", "partition": "q"}, False),
        ({"user": ""}, False),  # an empty list means no job
        ({"nodelist": ""}, False),
    ],
)
def test_options_choose_together(said: dict[str, str | None], found: bool) -> None:
    assert chosen(said).has(job(nodes=("n2",))) is found


def test_squeue_compares_names_without_regard_to_case() -> None:
    assert Chosen(names=frozenset({"TRAIN"}), any_case=True).has(job())


def test_a_user_is_named_by_name_or_number() -> None:
    me = pwd.getpwuid(os.getuid())
    assert chosen({"user": str(me.pw_uid)}).users == chosen({"me": None}).users == {me.pw_name}
    assert chosen({"user": "4000000000,²"}).users == {"4000000000", "²"}
    assert is_user(me.pw_name)
    assert is_user(str(me.pw_uid))
    assert [is_user(name) for name in ("no such user", "4000000000", "²")] == [False] * 3


def test_states_in_their_long_and_short_form() -> None:
    assert read_states("pd,RUNNING") == {"PENDING", "RUNNING"}
    assert read_states("R,all") is None
    with pytest.raises(KeyError, match="nothing"):
        read_states("R,nothing")
