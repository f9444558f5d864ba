"""Point 2 of the protocol on a server without our policies: the overlay for it, with the real processes, their own
rights and the Service's name, from installing it to changing to the policies later."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.upstart import PHALANX, until
from tests.deploy.cluster import ROOT, Cluster, cluster
from tests.deploy.test_install import bound, calls, job, scheduler
from tests.metrics.exposition import scrape, value

pytestmark = pytest.mark.slow
OVERLAY = "deploy/overlays/webhook"


@contextmanager
def webhook(account: Path, number: int = 1) -> Iterator[Any]:
    """`phalanx webhook` with these rights: its port, and where its metrics are."""
    anywhere = "127.0.0.1:0"
    options = ("--kubeconfig", str(account), "--address", anywhere, "--metrics-address", anywhere, "--verbose")
    log = account.with_suffix(f".{number}.log")
    with log.open("w") as stream, subprocess.Popen((*PHALANX, "webhook", *options), stderr=stream) as process:
        try:
            until(lambda: "answering at" in log.read_text())
            lines = log.read_text().splitlines()
            where = next(line for line in lines if "answering at" in line).split(";")[0].split()[-1]
            yield (
                int(where.split(":")[2].split("/")[0]),
                next(line for line in lines if "metrics at" in line).split()[-1],
            )
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)
    assert process.returncode == 0, log.read_text()
    assert "Traceback" not in log.read_text()


def is_served(where: str) -> bool:
    """Its certificate is made, and API servers were told."""
    return value(scrape(where), "phalanx_webhook_certificate_end_seconds") > 0


def a_pod_of_it(there: Cluster, port: int, number: int = 1) -> None:
    """No controller creates pods of a Deployment in this test: a ready pod of its template, at the port of this
    process."""
    deployment = there.get("deployment", "phalanx-webhook", "--namespace", "phalanx-system")
    template, name = deployment["spec"]["template"], f"phalanx-webhook-{number}"
    spec = {**template["spec"], "schedulerName": "nobody"}
    spec["containers"][0]["ports"][0]["containerPort"] = port
    meta = {"name": name, "namespace": "phalanx-system", "labels": template["metadata"]["labels"]}
    there.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    patch = ("--subresource", "status", "--type", "merge", "--patch", json.dumps({"status": status}))
    there.kubectl("patch", "pod", name, "--namespace", "phalanx-system", *patch)


def created(there: Cluster, body: Any) -> subprocess.CompletedProcess[str]:
    return there.call("create", "--filename", "-", text=json.dumps(body))


def refused_with(there: Cluster, name: str) -> str:
    done = created(there, job(name))
    assert done.returncode != 0
    return done.stderr


@pytest.mark.long
def test_a_life_of_it(tmp_path: Path) -> None:
    with cluster(tmp_path) as there:
        there.kubectl("apply", "--filename", "deploy/base/namespace.yaml")
        there.kubectl("apply", "--kustomize", OVERLAY)
        nobody_is_there_yet(there)
        account = there.account("phalanx-system", "phalanx-webhook")
        with webhook(account) as (port, where):
            a_pod_of_it(there, port)
            until(lambda: is_served(where))
            assert bundle(there) != ""
            with scheduler(there.account("phalanx-system", "phalanx")) as metrics:
                it_makes_jobs_ours(there)
                assert {call: count for call, count in calls(scrape(metrics)).items() if call[3] == "403"} == {}
                a_second_one_shares_its_authority(there, account)
                assert "by calling `phalanx webhook`" in account.with_name("phalanx-system-phalanx.log").read_text()
            said = {"resource": "jobs", "operation": "CREATE", "outcome": "changed"}
            assert value(scrape(where), "phalanx_admissions_total", **said) >= 2
            the_account_can_do_nothing_else(there, account)
            an_upgrade_takes_nobodys_trust_away(there)
        without_it_nothing_else_is_in_the_way(there)
        the_policies_take_over(there)


def bundle(there: Cluster) -> str:
    found = there.get("mutatingwebhookconfiguration", "admission.phalanx.dev")
    return str(found["webhooks"][0]["clientConfig"].get("caBundle", ""))


def nobody_is_there_yet(there: Cluster) -> None:
    assert 'no endpoints available for service "phalanx-webhook"' in refused_with(there, "early")
    free = job("free")
    free["metadata"]["labels"] = {"app": "web"}
    assert created(there, free).returncode == 0


def it_makes_jobs_ours(there: Cluster) -> None:
    """A label is enough; the Job's creator is recorded on it, whatever the user wrote."""
    body = job("train")
    body["metadata"]["annotations"] = {"phalanx.dev/user": "root"}
    there.apply(body)
    until(lambda: bound(there, "train"))
    found = there.get("job", "train")
    assert found["spec"]["template"]["spec"]["schedulerName"] == "phalanx"
    assert found["metadata"]["annotations"]["phalanx.dev/user"] == "admin"
    dry = there.kubectl(
        "create", "--dry-run=server", "--output", "json", "--filename", "-", text=json.dumps(job("dry"))
    )
    assert json.loads(dry)["spec"]["suspend"] is True


def a_second_one_shares_its_authority(there: Cluster, account: Path) -> None:
    """Both answer: the first is gone while the second is asked."""
    before = bundle(there)
    with webhook(account, 2) as (port, where):
        until(lambda: is_served(where))
        there.kubectl("delete", "pod", "phalanx-webhook-1", "--namespace", "phalanx-system")
        a_pod_of_it(there, port, 2)
        there.apply(job("second"))
        said = {"resource": "jobs", "operation": "CREATE", "outcome": "changed"}
        until(lambda: value(scrape(where), "phalanx_admissions_total", **said) >= 1)
        assert bundle(there) == before


def an_upgrade_takes_nobodys_trust_away(there: Cluster) -> None:
    secret = ("secret", "phalanx-webhook", "--namespace", "phalanx-system")
    before, authority = bundle(there), there.get(*secret)["data"]
    there.kubectl("apply", "--kustomize", OVERLAY)
    assert bundle(there) == before != ""
    assert there.get(*secret)["data"] == authority


def the_account_can_do_nothing_else(there: Cluster, account: Path) -> None:
    def allowed(*words: str) -> bool:
        return there.call("auth", "can-i", *words, kubeconfig=account).stdout.strip() == "yes"

    spaced = ("--namespace", "phalanx-system")
    assert allowed("update", "secret/phalanx-webhook", *spaced)
    assert not allowed("list", "secrets", *spaced)
    assert not allowed("get", "secret/other", *spaced)
    assert not allowed("get", "secret/phalanx-webhook", "--namespace", "default")
    assert not allowed("create", "mutatingwebhookconfigurations")
    assert not allowed("update", "mutatingwebhookconfigurations/other")
    assert not allowed("get", "jobs")


def without_it_nothing_else_is_in_the_way(there: Cluster) -> None:
    """Its processes have ended: objects with Phalanx's label cannot be created, with a clear error, and others can."""
    assert 'failed calling webhook "admission.phalanx.dev"' in refused_with(there, "late")
    assert bound(there, "train")
    free = job("free-too")
    free["metadata"]["labels"] = {"app": "web"}
    assert created(there, free).returncode == 0
    there.kubectl("annotate", "job", "train", "note=still-changeable")


def the_policies_take_over(there: Cluster) -> None:
    """By the commands of docs/guide/deploy.md."""
    guide = (ROOT / "docs" / "guide" / "deploy.md").read_text().partition("**From the webhook to the policies")[2]
    block = guide.partition("```sh\n")[2].partition("```")[0].replace("\\\n", " ")
    commands = [shlex.split(line) for line in block.splitlines()]
    assert [sum(verb in words for verb in ("apply", "delete")) for words in commands] == [1] * 4
    for words in commands:
        there.kubectl(*words[1:])
    made = created(there, job("after"))
    assert made.returncode == 0, made.stderr
    found = there.get("job", "after")
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["annotations"]["phalanx.dev/user"] == "admin"
    assert there.get("mutatingwebhookconfigurations")["items"] == []
    of_it = "serviceaccounts,secrets,deployments,services,roles,rolebindings,clusterroles,clusterrolebindings"
    left = there.get(of_it, "--all-namespaces")["items"]
    assert [each["kind"] for each in left if "phalanx-webhook" in each["metadata"]["name"]] == []
