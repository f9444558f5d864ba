"""Files that come with Phalanx, and the chart that is made of its manifests."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from phalanx.cli.files import shipped as files
from phalanx.cli.files.shipped import copy_out, shipped, write_chart
from phalanx.errors import PhalanxError


def test_folders_of_a_checkout_or_wheel_and_no_others() -> None:
    assert (shipped("deploy") / "base" / "kustomization.yaml").is_file()
    with pytest.raises(PhalanxError, match="this installation has no treasures"):
        shipped("treasures")


def test_a_copy_has_no_compiled_files_and_replaces_nothing(tmp_path: Path) -> None:
    source = tmp_path / "from" / "example"
    (source / "__pycache__").mkdir(parents=True)
    (source / "run.py").write_text("pass")
    there = copy_out(source, tmp_path / "to")
    assert [path.name for path in there.iterdir()] == ["run.py"]
    assert copy_out(source / "run.py", tmp_path / "to").read_text() == "pass"
    with pytest.raises(PhalanxError, match=r"exists already\. Nothing was written"):
        copy_out(source, tmp_path / "to")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PhalanxError, match="cannot be written: "):
        copy_out(tmp_path / "file", tmp_path / "file" / "below")


def test_a_chart_keeps_definitions_and_leaves_our_namespace_to_helm(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy"
    for folder in ("base", "chart", "prometheus", "components/extra"):
        (deploy / folder).mkdir(parents=True)
    for name in ("alerts", "service-monitor"):
        (deploy / "prometheus" / f"{name}.yaml").write_text("")
    (deploy / "chart" / "Chart.yaml").write_text("name: phalanx\n")
    kustomization = "labels: [{pairs: {app: phalanx}}]\nresources: [all.yaml, ../folder]\n"
    (deploy / "base" / "kustomization.yaml").write_text(kustomization)
    (deploy / "components" / "extra" / "kustomization.yaml").write_text("patches: [{path: a.yaml}]\n")
    kinds = (("Namespace", "phalanx-system"), ("Namespace", "other"), ("CustomResourceDefinition", "queues"))
    objects = [{"kind": kind, "metadata": {"name": name, "labels": {"own": "x"}}} for kind, name in kinds]
    (deploy / "base" / "all.yaml").write_text(yaml.safe_dump_all(objects))

    chart = write_chart(deploy, tmp_path / "out")
    other, definition = yaml.safe_load_all((chart / "objects" / "base.yaml").read_text())
    assert other["metadata"] == {"name": "other", "labels": {"own": "x", "app": "phalanx"}}
    assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert (chart / "Chart.yaml").is_file()
    assert not (chart / "objects" / "components").exists(), "it patches more than dialects"
    with pytest.raises(PhalanxError, match="exists already"):
        write_chart(deploy, tmp_path / "out")


def test_expressions_of_a_template_are_not_quoted() -> None:
    container = {"name": "c", "image": "i", "args": ["run"], "env": []}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "phalanx-webhook"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    text = files._template(deployment, 'eq .Values.admission "webhook"', {})
    assert text.startswith('{{- if eq .Values.admission "webhook" }}\n')
    assert text.endswith("{{- end }}\n")
    assert "replicas: {{ .Values.webhook.replicas }}\n" in text
    assert "'{{" not in text
