"""Which names stand for which addresses, and how a hosts file is kept true under its readers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from phalanx.embedded.node.container.shim.fork_server import shim_command
from phalanx.embedded.node.network.names import Networks, Record, host_name, own_lines, records
from tests.embedded.node.objects import Object, pod

HOME = Networks(number=1)
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def service(name: str, cluster_ip: str = "None", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": "a"}, "clusterIP": cluster_ip, **spec},
    }


def member(name: str, **spec: Any) -> Object:
    return pod(name=name, meta={"labels": {"app": "a"}}, **spec) | READY


def test_a_headless_service_is_its_ready_pods() -> None:
    there = [(member("p"), "127.64.0.1"), (member("q") | {"status": {}}, "127.64.0.2"), (pod(name="r"), "127.64.0.3")]
    assert records(HOME, there, [service("s")]) == [Record("127.64.0.1", "s", "default")]
    early = records(HOME, there, [service("s", publishNotReadyAddresses=True)])
    assert [record.address for record in early] == ["127.64.0.1", "127.64.0.2"]


def test_pods_that_are_over_or_going_have_no_name() -> None:
    over = member("p") | {"status": {"phase": "Succeeded"}}
    going = member("q")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    services = [service("s"), service("early", publishNotReadyAddresses=True)]
    found = records(HOME, [(over, "127.64.0.1"), (going, "127.64.0.2")], services)
    assert found == [Record("127.64.0.2", "early", "default")]


def test_a_pod_has_a_name_below_its_service() -> None:
    one = member("train-0-x7k2p", hostname="train-0", subdomain="train")
    found = records(HOME, [(one, "127.64.0.1")], [service("train"), service("other")])
    assert Record("127.64.0.1", "train-0.train", "default") in found
    assert Record("127.64.0.1", "train-0.other", "default") not in found


def test_names_are_shorter_in_their_own_namespace() -> None:
    record = Record("127.64.0.1", "s", "team")
    full = "127.64.0.1 s.team.svc.cluster.local s.team.svc s.team"
    assert (record.line("other"), record.line("team")) == (full, f"{full} s")


def test_a_service_with_an_address_has_one_on_this_machine() -> None:
    found = records(HOME, [(member("p"), "127.64.0.1")], [service("web", "10.96.3.7")])
    assert found == [Record("127.97.3.7", "web", "default")]


def test_a_pods_own_names_come_first() -> None:
    one = member("p", hostname="rank-0", subdomain="mpi", hostAliases=[{"ip": "10.0.0.9", "hostnames": ["db", "data"]}])
    own = "127.64.0.1 rank-0.mpi.default.svc.cluster.local rank-0"
    assert own_lines(one, "127.64.0.1") == [own, "10.0.0.9 db data"]
    assert own_lines(pod(name="p"), "127.64.0.1") == ["127.64.0.1 p"]
    assert own_lines(pod(name="p", nodeName="node-1"), "127.64.0.1") == ["127.64.0.1 p node-1"]


def test_a_long_name_is_cut_as_the_kubelet_does() -> None:
    assert host_name(pod(name="a" * 62 + "-tail")) == "a" * 62
    assert host_name(member("p", subdomain="s", setHostnameAsFQDN=True)) == "p.s.default.svc.cluster.local"


def test_users_without_rights_mount_in_a_namespace_of_their_own(tmp_path: Path) -> None:
    """The agent tests this at its start; a refusal has the kernel's message."""
    place = tmp_path / "file"
    place.touch()
    argv = shim_command("--probe", str(place), str(place))
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == ""


def test_a_refusal_has_a_reason(tmp_path: Path) -> None:
    argv = shim_command("--probe", str(tmp_path / "missing"), str(tmp_path / "target"))
    assert "No such file" in subprocess.run(argv, capture_output=True, text=True, check=True).stdout
