"""`core/reasons/never.py`: gangs that would not fit even on empty nodes, although counting finds enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.placement.draft import Draft
from phalanx.core.reasons.never import never_fits
from phalanx.model.job import Job, Role
from phalanx.model.pod import Operator, PodAffinityTerm, Requirement, Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.reason import ReasonCode
from tests.core.builders import cluster, event, job, node, role

SELF = (Requirement("app", Operator.IN, ("x",)),)


def apart(count: int) -> Role:
    """Pods of which no two go to one node."""
    term = PodAffinityTerm(topology="host", selector=SELF)
    return Role(
        name="w",
        count=count,
        minimum=count,
        shape=Shape(requests=amounts({"cpu": 1}), labels=(("app", "x"),), away=(term,)),
    )


COMPETING = (role("a", cpu=5), role("b", count=2, cpu=4))  # 13 cpus of 14, but no two pods fit one node of 7


@pytest.mark.parametrize(
    ("roles", "never"),
    [(COMPETING, True), (COMPETING[:1], False), ((apart(3),), True), ((apart(2),), False)],
)
def test_what_counting_does_not_show(roles: tuple[Role, ...], never: bool) -> None:
    nodes = [node(name, labels={"host": name}, cpu=7) for name in ("n1", "n2")]
    book = cluster(
        *nodes, job("runs", role(count=2, cpu=7)), Job(id="j", queue="default", roles=roles, submitted_s=1.0)
    )
    fold_plan(book, decide(book, Policy(), 0.0))
    found = book.reason("j")
    assert found is not None
    assert (found.code is ReasonCode.NEVER_FITS) is never
    assert ("even if nothing ran" in found.text) is never


def test_another_node_ends_it() -> None:
    book = cluster(node("n1", labels={"host": "n1"}, cpu=4), Job(id="j", queue="default", roles=(apart(2),)))
    fold_plan(book, decide(book, Policy(), 0.0))
    gang = book.jobs["j"].gang
    first = never_fits(book, Draft(book.columns), gang)
    assert first is not None
    assert never_fits(book, Draft(book.columns), gang) is first, "it is tried once until a node changes"
    fold(book, [event(node("n2", labels={"host": "n2"}, cpu=4))])
    assert never_fits(book, Draft(book.columns), gang) is None


def test_affinity_to_pods_that_may_come_is_no_reason() -> None:
    near = PodAffinityTerm(topology="host", selector=(Requirement("app", Operator.IN, ("later",)),))
    wishing = replace(role("a", cpu=1), shape=Shape(requests=amounts({"cpu": 1}), near=(near,)))
    book = cluster(node("n1", labels={"host": "n1"}, cpu=4), Job(id="j", queue="default", roles=(wishing,)))
    assert never_fits(book, Draft(book.columns), book.jobs["j"].gang) is None
