"""`kube/status/dialect_reports.py`: metrics, answers at paths and Events of the enabled dialects, and of no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from phalanx.client.kind import JOBS
from phalanx.kube.status.dialect_reports import DialectReports, kind_of


def reports(*dialects: str, events: list[str] | None = None) -> DialectReports:
    """Return the reports of these dialects, without definitions or gangs. `events`: gets the reasons of Events."""
    watch: Any = SimpleNamespace(dialects=dict.fromkeys(dialects), defined={}, claimed={})
    views: Any = SimpleNamespace(told={name: {} for name in dialects}, of=lambda gang: ("", None))
    reporter: Any = SimpleNamespace(object_event=lambda kind, meta, reason, *more, **how: (events or []).append(reason))
    return DialectReports(watch, views, lambda kinds: {}, reporter, lambda: 100.0)


def test_only_enabled_dialects_have_metrics() -> None:
    assert list(reports().counted()()) == []
    names = {family.name for family in reports("kueue").counted()()}
    assert names
    assert all(name.startswith("kueue_") for name in names)


def test_a_path_of_a_dialect_that_is_not_enabled_has_no_answer() -> None:
    found = reports("volcano")
    assert found.view("visibility.kueue.x-k8s.io", ("v1beta1",), {}) is None
    assert found.stream("visibility.kueue.x-k8s.io", ("v1beta1",), {}) is None


def test_a_write_about_no_gang_is_not_reported() -> None:
    events = list[str]()
    found = reports("kueue", events=events)
    found.see_write("default/none", JOBS, None, {"metadata": {}})
    assert events == []


def test_the_kind_of_an_event_has_group_version_and_name() -> None:
    kind = kind_of({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"})
    assert (kind.group, kind.version, kind.name) == ("kueue.x-k8s.io", "v1beta1", "Workload")
    assert kind_of({"apiVersion": "v1", "kind": "Pod"}).group == ""
