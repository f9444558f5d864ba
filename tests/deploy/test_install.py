"""`deploy/` on a server: it installs, its account has exactly the needed rights, and its removal harms no other
object."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.upstart import PHALANX, until
from tests.deploy.cluster import ROOT, Cluster, cluster
from tests.deploy.test_manifests import granted
from tests.metrics.exposition import Series, scrape

pytestmark = pytest.mark.slow
OVERLAYS = ("deploy/overlays/mutating", "deploy/overlays/validating", "deploy/base", "deploy/overlays/webhook")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        found.kubectl("apply", "--filename", "deploy/base/namespace.yaml")
        yield found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_accepts_it_before_anything_is_made(there: Cluster, overlay: str) -> None:
    """As a real one, it wants the namespace first."""
    done = there.call("apply", "--dry-run=server", "--kustomize", overlay)
    assert done.returncode == 0, done.stderr
    assert "deployment.apps/phalanx created (server dry run)" in done.stdout
    assert ours(there, "crds") == []


def ours(there: Cluster, kind: str) -> list[str]:
    """Objects of that kind that carry our name."""
    names = [each["metadata"]["name"] for each in there.get(kind)["items"]]
    return [name for name in names if name.endswith("phalanx.dev")]


# --- a life --------------------------------------------------------------------------------------------------------


def job(name: str, pods: int = 2, **rest: Any) -> Any:
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "containers": [container], **rest.pop("pod", {})}
    meta = {"name": name, "labels": {"phalanx.dev/queue": rest.pop("queue", "default")}}
    template = {"metadata": {"annotations": {"phalanx.dev/run-seconds": "3600"}}, "spec": spec}
    body = {"parallelism": pods, "completions": pods, "template": template, **rest}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def bare(name: str, **spec: Any) -> Any:
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "annotations": {"phalanx.dev/run-seconds": "3600"}}
    body = {"schedulerName": "phalanx", "containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


QUEUE = {
    "apiVersion": "phalanx.dev/v1",
    "kind": "Queue",
    "metadata": {"name": "ranked"},
    "spec": {"order": "priority", "preemption": {"within": "lower"}},
}
URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


@contextmanager
def scheduler(kubeconfig: Path) -> Iterator[str]:
    """`phalanx scheduler` with these rights; where its metrics are."""
    command = (*PHALANX, "scheduler", "--kubeconfig", str(kubeconfig), "--metrics-address", "127.0.0.1:0", "--verbose")
    log = kubeconfig.with_suffix(".log")
    with log.open("w") as stream, subprocess.Popen(command, stderr=stream) as process:
        try:
            until(lambda: "this process leads" in log.read_text())
            where = next(line for line in log.read_text().splitlines() if "metrics at" in line)
            yield where.split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)
    print(log.read_text())


def calls(found: Series) -> dict[tuple[str, str, str, str], float]:
    """(verb, group, resource, code) -> how many."""
    keys = ("verb", "group", "resource", "code")
    return {
        tuple(dict(labels)[key] for key in keys): count  # type: ignore[misc]  # as many as keys
        for (name, labels), count in found.items()
        if name == "phalanx_api_calls_total"
    }


def bound(there: Cluster, *names: str) -> bool:
    """Every pod of these Jobs, or of that name, runs on a node."""
    pods = there.get("pods")["items"]
    for name in names:
        own = [pod for pod in pods if pod["metadata"]["name"] == name or pod["metadata"]["name"].startswith(name + "-")]
        if not own or not all(pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running" for pod in own):
            return False
    return True


def reason(there: Cluster, name: str) -> str:
    return str((there.get("job", name)["metadata"].get("annotations") or {}).get("phalanx.dev/reason", ""))


def test_a_life_of_it(there: Cluster) -> None:
    """One story, because a cluster takes seconds: installed, at work with its own rights, and taken away again."""
    for _ in range(2):  # the second time as an upgrade is done
        there.kubectl("apply", "--kustomize", OVERLAYS[0])
    its_pods_are_let_in(there)
    account = there.account("phalanx-system", "phalanx")
    with scheduler(account) as where:
        it_does_its_work(there)
        found = calls(scrape(where))
        refused = {call: count for call, count in found.items() if call[3] in {"401", "403", "422"}}
        assert refused == {}
        assert {call[:3] for call in found if call[2]} <= granted() | {("get", "", "")}
    the_account_can_do_nothing_else(there, account)
    taking_it_away_harms_nobody(there)


def its_pods_are_let_in(there: Cluster) -> None:
    """No controller creates pods of a Deployment in this test: a pod of its template meets the namespace's Pod Security
    Standard."""
    deployment = there.get("deployment", "phalanx", "--namespace", "phalanx-system")
    template = deployment["spec"]["template"]
    meta = {"name": "as-made", "namespace": "phalanx-system", "labels": template["metadata"]["labels"]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    made = there.kubectl("create", "--dry-run=server", "--output", "json", "--filename", "-", text=json.dumps(body))
    spec = json.loads(made)["spec"]
    assert spec["containers"][0]["image"].startswith("phalanx:")
    assert spec["priority"] == 2_000_000_000
    loose = {**spec, "securityContext": {}, "containers": [{**spec["containers"][0], "securityContext": {}}]}
    refused = there.call("create", "--dry-run=server", "--filename", "-", text=json.dumps({**body, "spec": loose}))
    assert "violates PodSecurity" in refused.stderr


def it_does_its_work(there: Cluster) -> None:
    there.apply(URGENT, QUEUE)
    there.apply(job("low", 4, queue="ranked"), bare("single"), bare("alone", priorityClassName=""))
    until(lambda: bound(there, "low", "single", "alone"))
    there.apply(job("pinned", 1, pod={"schedulerName": "somebody-else"}, suspend=True))
    until(lambda: all(let_go(pod) for pod in pods_of(there, "pinned")) and bool(pods_of(there, "pinned")))
    there.apply(job("high", 4, queue="ranked", pod={"priorityClassName": "urgent"}), bare("wants-much"))
    until(lambda: bound(there, "high"))
    until(lambda: reason(there, "low").startswith("Preempted") or "NoRoom" in reason(there, "low"))
    there.apply(bare("huge", containers=[{"name": "main", "image": "any", "resources": {"requests": {"cpu": "99"}}}]))
    until(lambda: "NeverFits" in str(there.get("pod", "huge")["status"].get("conditions")))
    until(lambda: there.get("queue", "ranked").get("status", {}).get("running") == 1)


def let_go(pod: Any) -> bool:
    """Another scheduler may bind it now, to the node that Phalanx chose."""
    return "phalanx.dev/pinned" in (pod["metadata"].get("annotations") or {}) and "schedulingGates" not in pod["spec"]


def pods_of(there: Cluster, name: str) -> list[Any]:
    return list(there.get("pods", "--selector", f"batch.kubernetes.io/job-name={name}")["items"])


def the_account_can_do_nothing_else(there: Cluster, account: Path) -> None:
    def tried(*words: str) -> str:
        done = there.call(*words, kubeconfig=account)
        assert done.returncode != 0
        return done.stderr

    def patched(what: str, change: Any) -> str:
        return tried("patch", *what.split("/"), "--type", "merge", "--patch", json.dumps(change))

    assert "cannot list resource" in tried("get", "secrets", "--all-namespaces")
    assert "cannot delete resource" in tried("delete", "pod", "single")
    assert "cannot create resource" in tried("run", "mine", "--image", "any")
    own = "changes phalanx.dev/* only"
    assert own in patched("job/low", {"metadata": {"annotations": {"team": "mine"}}})
    assert own in patched("pod/single", {"metadata": {"annotations": {"team": "mine"}}})
    assert "no labels" in patched("job/low", {"metadata": {"labels": {"phalanx.dev/queue": "other"}}})
    assert "no finalizers" in patched("job/low", {"metadata": {"finalizers": ["mine.example/x"]}})
    assert "what a Job is to complete" in patched("job/low", {"spec": {"backoffLimit": 1}})
    fewer = {"spec": {"parallelism": 1, "completions": 1}}
    for name, words in (("stays", {}), ("follows", {"phalanx.dev/completions": "equal-parallelism"})):
        indexed = job(name, completionMode="Indexed")
        indexed["metadata"]["annotations"] = {"phalanx.dev/hold": "true", **words}
        there.apply(indexed)
    assert "what a Job is to complete" in patched("job/stays", fewer)
    change = ("patch", "job", "follows", "--type", "merge", "--patch", json.dumps(fewer))
    there.kubectl(*change, kubeconfig=account)
    there.kubectl("delete", "job", "stays", "follows")
    template = {"template": {"metadata": {"annotations": {"team": "mine"}}}}
    assert "node selector, tolerations" in patched("job/low", {"spec": template})
    containers = [{"name": "main", "image": "mine"}]
    image = tried("patch", "pod", "single", "--patch", json.dumps({"spec": {"containers": containers}}))
    assert "changes no containers" in image


def taking_it_away_harms_nobody(there: Cluster) -> None:
    running = {pod["metadata"]["uid"] for pod in there.get("pods")["items"] if pod["status"]["phase"] == "Running"}
    there.kubectl("delete", "--ignore-not-found", "--kustomize", OVERLAYS[0])
    assert running
    assert running <= {pod["metadata"]["uid"] for pod in there.get("pods")["items"]}
    assert bound(there, "high")
    assert there.get("job", "low")["spec"]["suspend"] is True
    there.kubectl("patch", "job", "low", "--patch", '{"spec": {"suspend": false}}')
    until(lambda: len(pods_of(there, "low")) == 4)
    if shutil.which("jq"):
        made_anew(there, "low")
    for kind in ("crds", "mutatingadmissionpolicies", "validatingadmissionpolicies"):
        assert ours(there, kind) == []


def made_anew(there: Cluster, name: str) -> None:
    """For the cluster's own scheduler, by the command of docs/guide/deploy.md."""
    guide = (ROOT / "docs" / "guide" / "deploy.md").read_text()
    program = next(iter(re.findall(r"jq '([^']*)'", guide)))
    anew = subprocess.run(
        ("jq", program), input=json.dumps(there.get("job", name)), capture_output=True, text=True, check=True
    )
    there.kubectl("replace", "--force", "--filename", "-", text=anew.stdout)
    until(lambda: [pod["spec"]["schedulerName"] for pod in pods_of(there, name)] == ["default-scheduler"] * 4)


@pytest.mark.long
def test_where_jobs_cannot_be_changed_they_are_refused_with_the_words_that_are_missing(tmp_path: Path) -> None:
    with cluster(tmp_path) as there:
        there.kubectl("apply", "--kustomize", OVERLAYS[1])

        def refusal(**change: Any) -> str:
            body = job("train") | {"metadata": {"name": "train", **change.pop("metadata", OURS)}}
            body["spec"] |= change
            return there.call("create", "--dry-run=server", "--filename", "-", text=json.dumps(body)).stderr

        assert "write spec.suspend: true" in refusal()
        assert refusal(suspend=True) == ""
        assert refusal(metadata={}) == ""
        assert "in his own name" in refusal(suspend=True, metadata=signed("somebody"))
        assert refusal(suspend=True, metadata=signed("admin")) == ""


OURS = {"labels": {"phalanx.dev/queue": "default"}}


def signed(user: str) -> Any:
    return OURS | {"annotations": {"phalanx.dev/user": user}}
