"""`phalanx scheduler` on another API server: it installs its queues, leads alone, and hands over the leadership."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from phalanx.client.moment import write_moment
from tests.cli.test_up import child
from tests.cli.upstart import PHALANX, started, until
from tests.kubectl import KUBECTL
from tests.metrics.exposition import has, scrape, value

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("server")
    command = (sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(data))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready")
        yield data / "kubeconfig"
        server.terminate()


@contextmanager
def scheduler(kubeconfig: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = (*PHALANX, "scheduler", "--kubeconfig", str(kubeconfig), *options)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)


def told(process: subprocess.Popen[str], words: str) -> str:
    """The next line with these words in it."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}: {seen}")


def holder(kubeconfig: Path) -> str:
    command = (KUBECTL, "get", "lease", "phalanx", "--namespace", "kube-system", "--output", "json")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return str(json.loads(done.stdout)["spec"].get("holderIdentity", ""))


def test_a_second_one_stands_by_until_the_first_is_gone(kubeconfig: Path) -> None:
    with scheduler(kubeconfig) as first:
        told(first, "scheduling for https://127.0.0.1")
        told(first, "this process leads")
        assert holder(kubeconfig).endswith(f"-{first.pid}")
        with scheduler(kubeconfig) as second:
            told(second, "as soon as no other scheduler does")
            first.send_signal(signal.SIGINT)
            assert first.wait(timeout=120) == 0
            told(second, "this process leads")
            assert holder(kubeconfig).endswith(f"-{second.pid}")


def test_both_show_metrics_and_one_of_them_leads(kubeconfig: Path) -> None:
    anywhere = ("--metrics-address", "127.0.0.1:0")
    with scheduler(kubeconfig, *anywhere) as first:
        told(first, "scheduling")
        where = told(first, "metrics at").split()[-1]
        told(first, "this process leads")
        until(lambda: has(scrape(where), "phalanx_queue_jobs"))
        with scheduler(kubeconfig, *anywhere) as second:
            told(second, "scheduling")
            there = told(second, "metrics at").split()[-1]
            asked = {"verb": "get", "resource": "leases", "code": "200"}
            until(lambda: value(scrape(there), "phalanx_api_calls_total", **asked) >= 1)
            theirs, ours = scrape(there), scrape(where)
        assert (value(ours, "phalanx_leader"), value(theirs, "phalanx_leader")) == (1, 0)
        until(lambda: value(scrape(where), "phalanx_api_calls_total", verb="watch", resource="pods") >= 1)
        until(lambda: value(scrape(where), "phalanx_cycle_seconds_count", phase="decide") >= 1)
        assert value(ours, "phalanx_cache_lists_total", resource="queues", group="phalanx.dev") >= 1
        assert urlopen(where.replace("metrics", "readyz"), timeout=120).read() == b"ok\n"


@pytest.mark.long
def test_for_the_cluster_of_an_up_it_stands_by_also_while_that_restarts_its_own(tmp_path: Path) -> None:
    """Point 13: one leads. The restarted control plane leads again at once, because its holder identity is fixed."""
    with started(tmp_path / "data") as up, scheduler(up.data / "kubeconfig") as other:
        told(other, "as soon as no other scheduler does")
        assert holder(up.data / "kubeconfig") == "phalanx-up"
        other.send_signal(signal.SIGSTOP)  # on a busy machine a restart may take longer than a lease
        os.kill(child(up, "control-plane"), signal.SIGKILL)
        up.read_until("the control plane is back")
        other.send_signal(signal.SIGCONT)
        assert up.phalanx("run", "--", "echo", "still works").stdout == "still works\n"
        assert holder(up.data / "kubeconfig") == "phalanx-up"


def queues(kubeconfig: Path) -> list[str]:
    command = (*PHALANX, "queues", "--json", "--kubeconfig", str(kubeconfig))
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return [queue["queue"] for queue in json.loads(said.stdout or "[]")]


def test_it_makes_the_default_queue(kubeconfig: Path) -> None:
    with scheduler(kubeconfig):
        until(lambda: queues(kubeconfig) == ["default"])


def test_beside_kueues_own_controller_it_does_not_start(kubeconfig: Path) -> None:
    """Both would resume the same jobs. The controller that renews the Lease goes on."""
    meta = {"name": "c1f6bfd2.kueue.x-k8s.io", "namespace": "kueue-system"}
    held = {
        "holderIdentity": "manager_0",
        "leaseDurationSeconds": 3600,
        "renewTime": f"{write_moment(time.time())[:-1]}.000000Z",
    }
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": held},
    ]
    created = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    subprocess.run((KUBECTL, "create", "-f", "-"), env=environment, input=created, text=True, check=True, timeout=120)
    command = (*PHALANX, "scheduler", "--kubeconfig", str(kubeconfig), "--dialect", "kueue")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "Kueue's own controller runs in this cluster: manager_0 holds the Lease kueue-system/c1f6" in done.stderr
    assert "kubectl -n kueue-system scale deployment kueue-controller-manager --replicas=0" in done.stderr
