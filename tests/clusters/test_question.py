"""The question to a worker, and its answer."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.clusters.question import question, read_answer, read_question
from phalanx.kube.gang.spec.elsewhere import Sought
from tests.clusters.sought import NOW_S, fields_of, sought


def test_no_answer_of_a_worker_is_believed_without_bounds() -> None:
    huge = {"kind": "JobStart", "startsIn": -5, "reason": {"code": "x" * 10_000, "message": "\x1b[31m" + "y" * 10_000}}
    found = read_answer(huge, NOW_S)
    assert found is not None
    assert len(found.text) < 500
    assert "\x1b" not in found.text
    for odd in (None, [], "x", {"kind": "Status"}, {"kind": "JobStart", "startsIn": "soon"}):
        assert read_answer(odd, NOW_S) is None


def test_equal_gangs_have_one_question_and_a_worker_reads_it_back() -> None:
    text = question(sought())
    assert text == question(Sought(**{**fields_of(sought()), "gang": "default/two"}))
    assert read_question(text).pods[0].requests == {"cpu": "1", "memory": "1Gi"}
    for bad in ("{", "{}", text.replace('"count":2', '"count":0'), text.replace('"count":2', '"count":999999999')):
        with pytest.raises((ValueError, msgspec.MsgspecError)):
            read_question(bad)
    many = {**fields_of(sought()), "options": {"phalanx.dev/queue": "q" * 9000}}
    assert question(Sought(**many)) == "", "too long to be asked"
