"""The real kubectl with what this folder makes: server-side apply, custom resources, explain, tables."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.embedded.apiserver.process import ServerProcess
from tests.kubectl import KUBECTL

pytestmark = pytest.mark.slow

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: host}]}}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: teams.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: teams, kind: Team, shortNames: [tm]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Weight, type: integer, jsonPath: .spec.weight}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {weight: {type: integer, minimum: 0, default: 1, description: Its part of what is left.}}
"""
TEAM = "---\napiVersion: example.com/v1\nkind: Team\nmetadata: {name: a}\nspec: {%s}\n"


class Kubectl:
    """kubectl as its user, in one namespace."""

    def __init__(self, server: ServerProcess, home: Path) -> None:
        self._environment = os.environ | {"KUBECONFIG": str(server.kubeconfig), "HOME": str(home)}
        self._namespace = "presentation"
        server.make_namespace(self._namespace)

    def _run(self, arguments: tuple[str, ...], stdin: str) -> subprocess.CompletedProcess[str]:
        command = [KUBECTL, "--namespace", self._namespace, *arguments]
        return subprocess.run(
            command, input=stdin, env=self._environment, capture_output=True, text=True, timeout=240, check=False
        )

    def says(self, *arguments: str, stdin: str = "") -> str:
        done = self._run(arguments, stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def complains(self, *arguments: str, stdin: str = "") -> str:
        done = self._run(arguments, stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr


def test_what_kubectl_makes_of_it(api_server: ServerProcess, tmp_path: Path) -> None:
    """One story instead of many: each kubectl takes half a second to start."""
    kubectl = Kubectl(api_server, tmp_path)
    kubectl.says("create", "-f", "-", stdin=JOB)
    running = JOB.replace("suspend: true", "suspend: false")
    conflict = kubectl.complains("apply", "--server-side", "-f", "-", stdin=running)
    assert 'conflict with "kubectl-create" using batch/v1: .spec.suspend' in conflict
    forced = kubectl.says("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=running)
    assert forced == "job.batch/train serverside-applied\n"
    assert kubectl.says("get", "job", "train").splitlines()[0].split() == [
        "NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"
    ]  # fmt: skip

    assert "created" in kubectl.says("apply", "-f", "-", stdin=DEFINITION)
    kubectl.says("wait", "--for=condition=Established", "crd/teams.example.com", "--timeout=200s")
    wrong = kubectl.complains("apply", "-f", "-", stdin=TEAM % "wieght: 3")
    assert 'unknown field "spec.wieght"' in wrong
    assert "should be greater than or equal to 0" in kubectl.complains("apply", "-f", "-", stdin=TEAM % "weight: -1")
    assert kubectl.says("apply", "-f", "-", stdin=TEAM % "weight: 3") == "team.example.com/a created\n"
    assert [line.split() for line in kubectl.says("get", "tm").splitlines()] == [["NAME", "WEIGHT"], ["a", "3"]]
    assert "Its part of what is left." in kubectl.says("explain", "team.spec.weight")
    assert "teams" in kubectl.says("api-resources", "--api-group=example.com")
    kubectl.says("delete", "crd", "teams.example.com", "--timeout=200s")
    assert "NotFound" in kubectl.complains("get", "crd", "teams.example.com")
