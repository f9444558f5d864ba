"""The request of a job: what follows from it, and how it is read from annotations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from phalanx.slurm.jobs.ask import ASK, Ask, Asks, parse_ask, printable, read_ask


def ask(**said: Any) -> Ask:
    return Ask(name="j", user="u", uid=1, gid=1, group="g", account="a", partition="p", **said)


def text(asked: Ask) -> str:
    return msgspec.json.encode(asked).decode()


@pytest.mark.parametrize(
    ("said", "cpus"),
    [
        ({"tasks": 3, "cpus_per_task": 2}, 6),
        ({"tasks": 3, "least_cpus": 8}, 8),
        ({"tasks": 8, "nodes": 2, "overcommit": True}, 2),
        ({"nodes": 0}, 0),
        ({"nodes": 0, "cpus_per_task": 4}, 4),
    ],
)
def test_cpus(said: dict[str, Any], cpus: int) -> None:
    assert ask(**said).cpus == cpus


def test_memory_is_of_each_node_or_of_each_cpu() -> None:
    assert ask(nodes=2, tasks=4, memory_mib=100).total_mib == 200
    assert ask(nodes=2, tasks=4, memory_mib=100, per_cpu=True).total_mib == 400
    assert ask(nodes=2).total_mib == 0


def test_gpus_are_of_the_job_or_of_each_node() -> None:
    assert ask(nodes=3, gpus_per_node=2).total_gpus == 6
    assert ask(nodes=3, gpus_per_node=2, gpus=4).total_gpus == 4


@pytest.mark.parametrize(
    ("said", "cpus"),
    [
        ({"tasks": 5, "nodes": 2, "node_cpus": 4}, [4, 1]),
        ({"tasks": 3, "nodes": 2, "cpus_per_task": 2, "node_cpus": 4}, [4, 2]),
        ({"tasks": 2, "nodes": 2, "exclusive": True, "node_cpus": 4}, [4, 4]),
        ({"tasks": 2, "nodes": 2, "overcommit": True, "min_cpus": 3}, [3, 3]),
        ({"tasks": 2, "nodes": 2, "least_cpus": 5}, [3, 3]),
    ],
)
def test_cpus_of_each_node(said: dict[str, Any], cpus: list[int]) -> None:
    found = ask(**said).cpus_of_nodes
    assert sorted(found) == sorted(cpus)


def test_what_is_not_slurms_is_no_request() -> None:
    assert read_ask({}) is None
    assert read_ask({ASK: "{"}) is None
    assert read_ask({ASK: text(ask(tasks=2))}) == ask(tasks=2)


def test_the_tasks_of_an_array_are_read_as_each_would_be() -> None:
    asks = Asks()
    for task in (0, 7, 7, 12):
        asked = ask(task=task, array=3, tasks=2)
        assert asks.read({ASK: text(asked)}) == read_ask({ASK: text(asked)}) == asked


def test_a_name_that_looks_like_a_field_is_a_name() -> None:
    asked = ask(task=4, comment=',"task":9,')
    assert Asks().read({ASK: text(asked)}) == asked


@pytest.mark.parametrize("text_", ["\x1b[2Ja", "a\nb", "\x9b1m"])
def test_texts_of_others_steer_no_terminal(text_: str) -> None:
    asked = Asks().read({ASK: text(ask(comment=text_))})
    assert asked is not None
    assert asked.comment == parse_ask(text(ask(comment=text_))).comment == printable(text_)
    assert printable(text_).isprintable()
    assert printable("é\u00a0") == "é\u00a0"
