"""The generator draws a conversation from its seed alone, and two servers of this project answer it equally."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.beside.answers import seen
from tests.embedded.beside.conversation import REMOVED, changed
from tests.embedded.beside.player import play_all, server_of
from tests.embedded.beside.subjects.catalogue import SUBJECTS, conversation_of
from tests.embedded.oracle.normalise import Names


@pytest.mark.parametrize("seed", range(len(SUBJECTS)))
def test_a_conversation_follows_from_its_seed(seed: int) -> None:
    first, second = conversation_of(seed), conversation_of(seed)
    assert first == second
    assert first.subject == list(SUBJECTS)[seed]
    assert 8 <= len(first.asks) <= 28
    assert conversation_of(seed + len(SUBJECTS)).asks != first.asks


@pytest.mark.parametrize(
    ("edits", "value"),
    [
        ([(("a", "b"), 1)], {"a": {"b": 1}, "l": [1, 2]}),
        ([(("l", 0), REMOVED)], {"l": [2]}),
        ([(("l", 2), 3), (("l", 0), 0)], {"l": [0, 2, 3]}),
        ([(("l", "x"), 3), (("l", 7), 3)], {"l": [1, 2]}),
        ([((), 5)], 5),
    ],
)
def test_edits_change_a_copy(edits: Any, value: Any) -> None:
    before = {"l": [1, 2]}
    assert changed(before, edits) == value
    assert before == {"l": [1, 2]}


def test_answers_are_compared_without_what_may_differ() -> None:
    names = Names({"rv0": "12", "uid0": "123e4567-e89b-12d3-a456-426614174000"})
    status = {"kind": "Status", "message": "x is invalid: [b: no, a: no]"}
    assert seen(_answer(status), names, "/x", managed=False)["body"]["message"] == "x is invalid: [a: no, b: no"
    meta = {"name": "m", "uid": "123e4567-e89b-12d3-a456-426614174000", "resourceVersion": "12", "managedFields": []}
    found = seen(_answer({"metadata": meta}), names, "/x", managed=False)["body"]["metadata"]
    assert found == {"name": "m", "uid": "${uid0}", "resourceVersion": "${rv0}"}
    warned = _answer({}) | {"warnings": ["no controller of this cluster acts on a daemonset", "other"]}
    assert seen(warned, names, "/x", managed=False)["warnings"] == ["other"]


def _answer(body: Any) -> dict[str, Any]:
    return {"status": 200, "contentType": "application/json", "body": body}


@pytest.mark.slow
def test_two_servers_of_this_project_answer_equally(tmp_path: Path) -> None:
    conversations = [conversation_of(seed) for seed in range(len(SUBJECTS))]
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(ServerProcess.started(tmp_path / name)) for name in ("a", "b"))
        sides = [server_of(one.kubeconfig) for one in (ours, theirs)]
        steps = asyncio.run(play_all(*sides, conversations, jobs=4))
    assert len(steps) == sum(len(one.asks) for one in conversations)
    assert [(one.conversation.seed, one.number, one.differences) for one in steps if one.differences] == []


@pytest.mark.slow
def test_a_short_conversation_is_equal_on_two_servers(tmp_path: Path) -> None:
    seed = list(SUBJECTS).index("reviews")
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(ServerProcess.started(tmp_path / name)) for name in ("a", "b"))
        sides = [server_of(one.kubeconfig) for one in (ours, theirs)]
        steps = asyncio.run(play_all(*sides, [conversation_of(seed)], jobs=1))
    assert len(steps) == len(conversation_of(seed).asks)
    assert not any(one.differences for one in steps)
