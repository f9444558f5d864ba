"""Run a user's kubectl commands with each installed version from 1.32 on.

Two versions are tried in every run: the oldest and the newest. PHALANX_KUBECTLS names more programs, and has all tried.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.upstart import Up, until
from tests.kubectl import versions

pytestmark = pytest.mark.slow

MINORS = [f"1.{minor}" for minor in range(32, 38)]
USUAL = ("1.32", "1.37")
SERVER = (
    "import http.server, os, socketserver as s\n"
    "server = s.TCPServer((os.environ['AT'], 0), http.server.SimpleHTTPRequestHandler)\n"
    "print(server.server_address[1], flush=True); server.serve_forever()"
)
MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "host",
                "command": [sys.executable, "-c", SERVER],
                "env": [{"name": "AT", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            }
        ]
    },
}


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One version of kubectl with its own namespace. Calling it returns the output."""

    command: tuple[str, ...]
    environment: dict[str, str]

    def __call__(self, *words: str, given: str = "", ends: bool = True) -> str:
        done = subprocess.run(
            (*self.command, *words), input=given, env=self.environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0 or not ends, (words, done.stderr)
        return done.stdout + done.stderr

    @contextmanager
    def forwards(self, words: str) -> Iterator[str]:
        """Yield the local port of a `port-forward`, which ends with the block."""
        with subprocess.Popen(
            (*self.command, "port-forward", *words.split()), env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                local = re.search(r"127.0.0.1:(\d+)", process.stdout.readline())
                assert local is not None
                yield local[1]
            finally:
                process.terminate()


@pytest.fixture
def up(shared_up: Up) -> Up:
    return shared_up


@pytest.fixture(params=MINORS)
def kubectl(request: pytest.FixtureRequest, up: Up, tmp_path: Path) -> Kubectl:
    minor: str = request.param
    if minor not in versions():
        pytest.skip(f"kubectl {minor} is not here: name it in PHALANX_KUBECTLS")
    if minor not in USUAL and "PHALANX_KUBECTLS" not in os.environ:
        pytest.skip("only the oldest and the newest are tried without PHALANX_KUBECTLS")
    space = f"v{minor.replace('.', '-')}"
    found = Kubectl((versions()[minor], f"--namespace={space}"), {**up.environment, "HOME": str(tmp_path)})
    found("create", "namespace", space)
    return found


def test_what_a_user_types(kubectl: Kubectl) -> None:
    """In this order: what one step makes the next looks at."""
    objects(kubectl)
    running(kubectl)
    workloads(kubectl)
    gone = kubectl("delete", "pod/web", "pod/copy", "deployment/d", "job/j", "--grace-period=1")
    assert gone.count("deleted") == 4


def objects(kubectl: Kubectl) -> None:
    text = json.dumps(MANIFEST)
    assert "created" in kubectl("apply", "-f", "-", given=text)
    assert "unchanged" in kubectl("apply", "-f", "-", given=text)
    assert "serverside-applied" in kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=text)
    assert kubectl("diff", "-f", "-", given=text) == ""
    assert "labeled" in kubectl("label", "pod", "web", "tier=front")
    assert "annotated" in kubectl("annotate", "pod", "web", "note=x")
    assert "web" in kubectl("get", "pods", "-l", "tier=front", "-o", "name")
    assert "FIELD" in kubectl("explain", "pod.spec.containers.image")
    assert "pods" in kubectl("api-resources")
    assert kubectl("auth", "can-i", "create", "jobs.batch") == "yes\n"
    assert "admin" in kubectl("auth", "whoami")
    assert kubectl("create", "configmap", "c", "--from-literal=a=b", "--dry-run=server", "-o", "name")
    assert "patched" in kubectl("patch", "pod", "web", "-p", '{"metadata":{"labels":{"x":"y"}}}')


def running(kubectl: Kubectl) -> None:
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=200s")
    until(lambda: "Started" in kubectl("describe", "pod", "web"))
    until(lambda: kubectl("logs", "web").strip().isdigit())
    port = kubectl("logs", "web").strip()
    assert kubectl("exec", "web", "--", "echo", "hi") == "hi\n"
    assert kubectl("exec", "-i", "web", "--", "cat", given="in\n") == "in\n"
    until(lambda: "Mi" in kubectl("top", "pod", "web", ends=False))
    raw = f"/api/v1/namespaces/{kubectl('get', 'pod', 'web', '-o', 'jsonpath={.metadata.namespace}')}"
    assert "<" in kubectl("get", "--raw", f"{raw}/pods/web:{port}/proxy/")
    with kubectl.forwards(f"pod/web :{port}") as local, urlopen(f"http://127.0.0.1:{local}/", timeout=240) as answer:
        assert answer.status == 200


def workloads(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "d", "--image=host", "--", "sleep", "3000")
    kubectl("rollout", "status", "deployment/d", "--timeout=200s")
    kubectl("scale", "deployment/d", "--replicas=0")
    kubectl("set", "env", "deployment/d", "A=b")
    assert "REVISION" in kubectl("rollout", "history", "deployment/d")
    kubectl("create", "job", "j", "--image=host", "--", "true")
    kubectl("wait", "job/j", "--for=condition=complete", "--timeout=200s")
    kubectl("debug", "web", "--image=host", "-c", "look", "--", "echo", "looked")
    until(lambda: kubectl("logs", "web", "-c", "look", ends=False) == "looked\n")
    kubectl("debug", "web", "--copy-to=copy", "--image=host", "--", "true")
    until(lambda: kubectl("get", "pod", "copy", "-o", "jsonpath={.status.phase}") == "Running")
    kubectl("expose", "pod", "web", "--port=80", "--name=s")
    assert "s" in kubectl("get", "all", "-o", "name")
