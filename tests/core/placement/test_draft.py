"""The scratch ledger: packing order, undo."""

from __future__ import annotations

from phalanx.core.fold.fold import fold
from phalanx.core.placement.draft import Draft
from phalanx.model.event import Occupied
from phalanx.model.pod import Shape
from tests.core.builders import cluster, free, node


def order(draft: Draft) -> list[str]:
    return [draft.columns.names[row] for row in draft.rows]


def test_the_fullest_node_comes_first_and_free_devices_last() -> None:
    book = cluster(node("empty", cpu=8), node("gpu", cpu=1, gpu=1), node("full", cpu=8))
    fold(book, [Occupied("p", "full", (("cpu", 6),))])
    assert order(Draft(book.columns)) == ["full", "empty", "gpu"]


def test_rewind_gives_back_what_was_taken_since_the_mark() -> None:
    draft = Draft(cluster(node("a", cpu=8)).columns)
    draft.take(0, (("cpu", 1),), 3)
    mark = draft.mark()
    draft.take(0, (("cpu", 2),), 2)
    draft.rewind(mark)
    assert draft.free["cpu"].tolist() == [5]


def test_the_book_is_not_touched() -> None:
    book = cluster(node("a", cpu=8))
    Draft(book.columns).take(0, (("cpu", 8),), 1)
    assert free(book, "a") == 8


def test_the_order_is_renewed_as_nodes_fill() -> None:
    draft = Draft(cluster(node("a", cpu=8), node("b", cpu=8)).columns)
    draft.take(1, (("cpu", 4),), 1)
    draft.settle()
    assert order(draft) == ["b", "a"]


def test_an_overfull_node_is_not_laid_out() -> None:
    book = cluster(node("a", cpu=8, memory=1), node("b", cpu=1))
    fold(book, [Occupied("p", "a", (("memory", 2),))])
    draft = Draft(book.columns)
    assert order(draft) == ["b"]
    assert draft.room(book.interned.demand(Shape(requests=(("cpu", 1),)))) == 1
