"""The guide, the dashboard and the alert rules speak of metrics that there are, by the names that they have.

`PHALANX_REWRITE=1 pytest tests/metrics/test_documents.py` writes the guide's table anew; read the difference."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from phalanx.client.tally import Tally
from phalanx.metrics.admissions import Admissions
from phalanx.metrics.collector import Leader, PassedOn, Scheduler
from phalanx.metrics.decisions import Decisions
from phalanx.model.reason import ReasonCode
from phalanx.model.status import ClusterStatus

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "metrics.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "phalanx.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
TABLE = re.compile(r"(<!-- metrics -->\n)(.*?)(<!-- end of metrics -->)", re.DOTALL)
OWN = re.compile(r"\bphalanx_[a-z_]+")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def families() -> list[Any]:
    scheduler = Scheduler(Tally())
    scheduler.leader = Leader(
        decisions=Decisions(),
        standings=lambda: (),
        overview=ClusterStatus,
        unanswered=lambda: 0,
        unsent=lambda: 0,
        breaches=lambda: 0,
    )
    seen = {family.name: family for family in (*scheduler.collect(), *Admissions().collect(), *PassedOn().collect())}
    return list(seen.values())


FAMILIES = families()
LABELS = {
    f"{family.name}{suffix}": {*family._labelnames, "le", "job"}
    for family in FAMILIES
    for suffix in SUFFIXES[family.type]
}
SAMPLES = set(LABELS)


def test_the_guide_lists_every_metric() -> None:
    rows = ["| metric | labels | what |", "|---|---|---|"]
    for family in FAMILIES:
        name = family.name + ("_total" if family.type == "counter" else "")
        kind = " (histogram)" if family.type == "histogram" else ""
        labels = ", ".join(f"`{label}`" for label in family._labelnames)
        rows.append(f"| `{name}`{kind} | {labels} | {family.documentation} |")
    page = GUIDE.read_text()
    now = TABLE.sub(lambda found: found[1] + "\n" + "\n".join(rows) + "\n\n" + found[3], page)
    if os.environ.get("PHALANX_REWRITE"):
        GUIDE.write_text(now)
    assert page == now, "the metrics have changed: PHALANX_REWRITE=1 .venv/bin/pytest tests/metrics/test_documents.py"


def test_names_and_words_are_as_prometheus_wants_them() -> None:
    """https://prometheus.io/docs/practices/naming: one prefix, base units, a word of help for each."""
    for family in FAMILIES:
        assert re.fullmatch(r"phalanx(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        assert not set(family._labelnames) & {"job", "pod", "node", "user", "name", "namespace", "instance"}


# --- dashboard -------------------------------------------------------------------------------------------------------

DATASOURCE = {
    "type": "object",
    "required": ["type", "uid"],
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
}
TARGET = {
    "type": "object",
    "required": ["refId", "datasource", "expr", "legendFormat"],
    "properties": {"datasource": DATASOURCE, "expr": {"type": "string", "minLength": 1}},
}
PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"enum": ["row", "timeseries", "stat", "table"]},
        "gridPos": {
            "type": "object",
            "required": ["h", "w", "x", "y"],
            "properties": {"w": {"maximum": 24}, "x": {"maximum": 23}},
            "additionalProperties": {"type": "integer", "minimum": 0},
        },
        "targets": {"type": "array", "minItems": 1, "items": TARGET},
    },
    "if": {"properties": {"type": {"const": "row"}}},
    "else": {"required": ["targets", "datasource", "fieldConfig", "options", "description"]},
}
# The part of Grafana's dashboard model (schema version 39) that it needs to import one.
SCHEMA = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time", "annotations"],
    "properties": {
        "uid": {"type": "string", "maxLength": 40},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "items": PANEL},
        "templating": {
            "type": "object",
            "required": ["list"],
            "properties": {"list": {"type": "array", "items": {"required": ["name", "type", "query"]}}},
        },
    },
    "not": {"required": ["id"]},  # a number of the Grafana that it was exported from
}


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text())


def covered(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    """The cells of the grid that a panel lies on."""
    for row in range(place["y"], place["y"] + place["h"]):
        yield from ((row, column) for column in range(place["x"], place["x"] + place["w"]))


def test_the_dashboard_is_one() -> None:
    found = dashboard()
    jsonschema.validate(found, SCHEMA)
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids))
    cells = [cell for panel in found["panels"] for cell in covered(panel["gridPos"])]
    assert len(cells) == len(set(cells)), "panels lie on each other"


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    text = DASHBOARD.read_text()
    assert set(OWN.findall(text)) <= SAMPLES
    assert [family.name for family in FAMILIES if family.name not in text] == [], "show each metric"


def test_variables_of_the_dashboard_are_defined() -> None:
    found = dashboard()
    named = {one["name"] for one in found["templating"]["list"]} | {"__rate_interval", "__range"}
    assert set(re.findall(r"\$\{?([a-z_]+)", DASHBOARD.read_text())) == named


# --- alerts ----------------------------------------------------------------------------------------------------------

DURATION = {"type": "string", "pattern": r"^(\d+(ms|[smhdwy]))+$"}
RULES = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "rules"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "interval": DURATION,
                    "rules": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["alert", "expr", "labels", "annotations"],
                            "additionalProperties": False,
                            "properties": {
                                "alert": {"type": "string", "pattern": "^Phalanx[A-Za-z]+$"},
                                "expr": {"type": "string"},
                                "for": DURATION,
                                "labels": {"required": ["severity"], "additionalProperties": {"type": "string"}},
                                "annotations": {
                                    "required": ["summary", "description"],
                                    "additionalProperties": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
        }
    },
}


def alerts() -> list[Any]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_the_alert_rules_are_such() -> None:
    jsonschema.validate(yaml.safe_load(ALERTS.read_text()), RULES)
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))
    assert {rule["labels"]["severity"] for rule in alerts()} <= {"critical", "warning", "info"}


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts())
    yield from (target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ()))


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_holds_together(expression: str) -> None:
    """Metrics that there are, with labels that they have, and every bracket closed."""
    assert set(OWN.findall(expression)) <= SAMPLES
    for opening, closing in ("()", "[]", "{}"):
        assert expression.count(opening) == expression.count(closing)
    for metric, matchers in re.findall(r"(phalanx_[a-z_]+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= LABELS[metric], metric


def test_alerts_name_reasons_that_there_are() -> None:
    lists = [codes for rule in alerts() for codes in re.findall(r'reason=~"([^"]*)"', rule["expr"])]
    assert lists
    assert {code for codes in lists for code in codes.split("|")} <= {str(code) for code in ReasonCode}
