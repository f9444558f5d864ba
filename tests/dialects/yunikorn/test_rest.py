"""YuniKorn's REST paths: the format of their answers, and the rights to read them on `phalanx up`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from phalanx.cli.cluster.visibility import SOCKET, Ask, visible
from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.client.kind import NODES, PODS, Kind
from phalanx.dialects.frame.dialect import GangStage, GangView, Object
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS, NAMESPACE, YUNIKORN, YuniKornDefinitions
from phalanx.dialects.yunikorn.gangs import GROUPS, QUEUE_PREFIX, USER, options_of
from phalanx.dialects.yunikorn.rest import LEFT_OUT, dashboards
from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import MOST_STREAMS_OF_ONE, Aggregated
from phalanx.embedded.apiserver.transport.negotiation import Accept
from phalanx.embedded.apiserver.transport.request import HttpRequest
from phalanx.model.reason import Reason, ReasonCode
from tests.cli.upstart import Up
from tests.embedded.apiserver.process import ServerProcess

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "yunikorn.md"
SITE = """
    partitions:
      - name: default
        nodesortpolicy: {type: binpacking}
        placementrules: [{name: provided}, {name: fixed, value: root.team_a.x}]
        queues:
          - name: root
            submitacl: '*'
            queues:
              - name: team_a
                resources: {guaranteed: {vcore: 1}, max: {vcore: 4, memory: 8Gi}}
                properties: {application.sort.policy: fair, preemption.delay: 1m}
                queues:
                  - {name: x, maxapplications: 3, resources: {max: {vcore: 2500m}}}
              - name: beside
"""
X = "root.team_a.x"


def defined(text: str = SITE) -> YuniKornDefinitions:
    config = {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": dedent(text)}}}
    return YUNIKORN.define({CONFIGURATIONS: config})


def pod(name: str, app: str, cpu: str, node: str = "", *, user: str = "sue", phase: str = "Pending") -> Object:
    notes = {"yunikorn.apache.org/user.info": json.dumps({"user": user, "groups": ["dev"]})}
    meta = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "annotations": notes}
    requests = {"cpu": cpu, "memory": "1Gi"}
    spec: Object = {"schedulerName": "yunikorn", "containers": [{"name": "c", "resources": {"requests": requests}}]}
    spec |= {"nodeName": node} if node else {}
    meta["labels"] = {"applicationId": app}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def told(pod: Object, queue: str = X, *, created_s: float = 5.0, reason: Reason | None = None) -> GangView:
    over, runs = pod["status"]["phase"] in ("Succeeded", "Failed"), "nodeName" in pod["spec"]
    return GangView(
        id=f"lab/pod:{pod['metadata']['name']}",
        namespace="lab",
        kind="Pod",
        owners=(pod,),
        options=options_of(pod["metadata"], "yunikorn"),
        queue=QUEUE_PREFIX + queue,
        priority=0,
        stage=GangStage.FINISHED if over else GangStage.RUNNING if runs else GangStage.WAITING,
        pod_sets=(),
        reason=reason,
        created_s=created_s,
    )


REFUSED = Reason(code=ReasonCode.INVALID, text="the user 'eve' may not submit to root.beside")
EVERYONE = (
    told(pod("one", "spark", "1500m", "n1", phase="Running")),
    told(pod("two", "spark", "1"), created_s=7.0),
    told(pod("old", "done", "1", "n1", phase="Succeeded")),
    told(pod("bad", "no", "1", user="eve"), "root.beside", reason=REFUSED),
)
NODE = {
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host1"}},
    "status": {"allocatable": {"cpu": "10", "memory": "16Gi", "pods": "110"}},
}


def ask(path: str, definitions: YuniKornDefinitions | None = None, **query: str) -> Any:
    return dashboards(definitions or defined(), EVERYONE, {NODES: {"n1": NODE}}, tuple(path.split("/")), query)


def test_a_queue_says_what_it_has_may_have_and_inherits() -> None:
    root = ask("v1/partition/default/queues")
    assert (root["queuename"], root["isLeaf"], root["childNames"]) == ("root", False, ["root.team_a", "root.beside"])
    assert root["maxResource"] == {"vcore": 10_000, "memory": 16 * 2**30, "pods": 110}
    team = root["children"][0]
    assert team["guaranteedResource"] == {"vcore": 1000}
    assert team["allocatedResource"] == {"vcore": 1500, "memory": 2**30, "pods": 1}
    assert (team["runningApps"], team["sortingPolicy"], team["parent"]) == (1, "fair", "root")
    [leaf] = team["children"]
    assert leaf["headroom"] == {"vcore": 1000, "memory": 7 * 2**30, "pods": 109}
    assert leaf["maxResource"] == {"vcore": 2500}
    assert leaf["pendingResource"] == {"vcore": 1000, "memory": 2**30, "pods": 1}
    assert leaf["absUsedCapacity"] == {"vcore": 60, "memory": 12, "pods": 0}
    assert (leaf["isLeaf"], leaf["maxRunningApps"], leaf["preemptionDelay"]) == (True, 3, "1m")
    assert leaf["properties"] == {"application.sort.policy": "fair", "preemption.delay": "1m"}
    assert ask("v1/partition/default/queue/ROOT.Team_A")["children"] == []
    assert ask("v1/partition/default/queue/root.team_a", subtree="")["children"] == [leaf]


def test_an_application_is_the_pods_of_one_id_and_its_state_follows_from_them() -> None:
    done, spark = ask(f"v1/partition/default/queue/{X}/applications")
    assert (done["applicationID"], done["applicationState"], done["allocations"]) == ("done", "Completed", [])
    assert (spark["applicationID"], spark["applicationState"], spark["queueName"]) == ("spark", "Running", X)
    assert (spark["user"], spark["groups"], spark["submissionTime"]) == ("sue", ["dev"], 5 * 10**9)
    assert spark["usedResource"] == {"vcore": 1500, "memory": 2**30, "pods": 1}
    [allocation], [request] = spark["allocations"], spark["requests"]
    assert (allocation["allocationKey"], allocation["nodeId"]) == ("uid-one", "n1")
    assert request["allocationTags"] == {"kubernetes.io/meta/namespace": "lab", "kubernetes.io/meta/podName": "two"}
    [rejected] = ask("v1/partition/default/applications/rejected")
    assert (rejected["applicationState"], rejected["rejectedMessage"]) == ("Rejected", REFUSED.text)
    assert [one["applicationID"] for one in ask("v1/partition/default/applications/active")] == ["spark"]
    assert ask("v1/partition/default/applications/active", status="accepted") == []
    assert ask("v1/partition/default/applications/active", status="odd")["status_code"] == 400
    assert [one["applicationID"] for one in ask("v1/partition/default/applications/completed")] == ["done"]
    assert ask("v1/partition/default/application/spark") == spark


def test_a_partition_its_nodes_users_and_rules() -> None:
    [partition] = ask("v1/partitions")
    assert partition["applications"] == {"total": 3, "Running": 1, "Completed": 1, "Rejected": 1}
    assert partition["capacity"]["utilization"] == {"vcore": 15, "memory": 6, "pods": 0}
    assert (partition["totalNodes"], partition["totalContainers"]) == (1, 1)
    assert partition["nodeSortingPolicy"]["type"] == "binpacking"
    [node] = ask("v1/partition/default/nodes")
    assert (node["nodeID"], node["hostName"], node["schedulable"]) == ("n1", "host1", True)
    assert (node["allocated"]["vcore"], len(node["allocations"])) == (1500, 1)
    eve, sue = ask("v1/partition/default/usage/users")
    assert (eve["userName"], eve["queues"]["resourceUsage"]) == ("eve", {})
    [team] = sue["queues"]["children"]
    assert (team["queuePath"], team["resourceUsage"]["vcore"]) == ("root.team_a", 1500)
    assert [one["queuePath"] for one in team["children"]] == [X]
    assert team["runningApplications"] == ["spark"]
    assert ask("v1/partition/default/usage/user/sue") == sue
    [rules] = ask("v1/partition/default/placementrules")
    assert [rule["name"] for rule in rules["rules"]] == ["provided", "fixed"]
    assert rules["rules"][1]["parameters"] == {"create": "false", "queue": "root.team_a.x"}


def test_the_configuration_is_shown_as_it_is_applied_and_a_refused_one_is_unhealthy() -> None:
    shown = ask("v1/config")
    assert shown["partitions"][0]["queues"][0]["queues"][0]["resources"]["guaranteed"] == {"vcore": "1"}
    assert len(shown["checksum"]) == 64
    assert ask("v1/scheduler/healthcheck")["Healthy"] is True
    broken = defined("partitions: [{queues: [{name: root, colour: red}]}]")
    health = ask("v1/scheduler/healthcheck", broken)
    assert health["Healthy"] is False
    assert "line 1" in health["HealthChecks"][0]["DiagnosisMessage"]
    assert ask("v1/config", broken)["status_code"] == 404
    bare = YUNIKORN.define({})
    assert ask("v1/partition/default/queues", bare)["allocatedResource"]["vcore"] == 1500
    assert ask("v1/clusters", bare)[0]["partition"] == "default"


def test_a_queue_that_is_only_asked_for_counts_nowhere_and_its_name_is_cut() -> None:
    """Anybody may ask for a queue of a hundred thousand levels."""
    waiting = told(pod("new", "app", "1"), "root." + "x." * 5000)

    def ask_of_it(*path: str) -> Any:
        return dashboards(defined(), [waiting], {}, ("v1", "partition", "default", *path), {})

    [shown] = ask_of_it("applications", "active")
    assert len(shown["queueName"]) == 256
    assert ask_of_it("queues")["pendingResource"] == {}
    assert ask_of_it("usage", "users")[0]["queues"]["children"] == []


def test_a_queue_that_a_rule_made_is_shown_with_its_template_while_it_is_used() -> None:
    text = """
        partitions:
          - placementrules: [{name: provided, create: true}]
            queues:
              - name: root
                submitacl: '*'
                childtemplate: {maxapplications: 2, resources: {max: {vcore: 3}}}
    """
    used = [told(pod(f"p{at}", f"app{at}", "1", "n1", phase="Running"), f"root.new.q{at}") for at in range(2)]
    path = ("v1", "partition", "default", "queue", "root")
    root: Any = dashboards(defined(text), used, {}, path, {"subtree": ""})
    assert (root["isManaged"], root["template"]["maxResource"]) == (True, {"vcore": 3000})
    [new] = root["children"]
    assert (new["isManaged"], new["isLeaf"], new["childNames"]) == (False, False, ["root.new.q0", "root.new.q1"])
    assert [(one["maxResource"], one["maxRunningApps"], one["runningApps"]) for one in new["children"]] == [
        ({"vcore": 3000}, 2, 1)
    ] * 2


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("v1/partition/gpu/queues", 404),
        ("v1/partition/default/queue/root.none", 404),
        ("v1/partition/default/application/none", 404),
        ("v1/partition/default/node/none", 404),
        ("v1/partition/default/usage/user/none", 404),
        ("v1/partition/default/applications/strange", 400),
        ("v1/events/stream", 404),
    ],
)
def test_what_is_not_there_is_an_error_in_its_form(path: str, code: int) -> None:
    found = ask(path)
    assert found["status_code"] == code
    assert found["message"] == found["description"]


def test_the_page_says_which_fields_are_left_out() -> None:
    page = PAGE.read_text()
    assert [row for row in (f"| {name} | {why} |" for name, why in LEFT_OUT.items()) if row not in page] == []


# --- on `phalanx up` --------------------------------------------------------------------------------------------------

MAPS, NAMESPACES = Kind(plural="configmaps", name="ConfigMap"), Kind(plural="namespaces", name="Namespace")
VALIDATE, STREAM = "/ws/v1/validate-conf", "/ws/v1/events/stream"
APPLICATIONS = f"/ws/v1/partition/default/queue/{X}/applications"


@pytest.mark.slow
def test_who_may_reads_them_on_up(simulated: Up) -> None:
    up = simulated

    async def scene() -> None:
        async with await Connection.open(up.data / "kubeconfig") as api:
            await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
            body = {"metadata": {"name": "yunikorn-configs"}, "data": {"queues.yaml": dedent(SITE)}}
            await api.create(MAPS, body, NAMESPACE)
            for name in ("one", "two"):  # of 2500m one fits
                made = pod(name, "spark", "1500m")
                made["metadata"] = {**made["metadata"], "namespace": "default"}
                made["spec"]["containers"][0]["image"] = "i"
                del made["metadata"]["uid"], made["status"]
                await api.create(PODS, made, "default")
            async with asyncio.timeout(120):
                while not await is_settled(api):  # noqa: ASYNC110 (the server is waited for)
                    await asyncio.sleep(0.1)
            with pytest.raises(ApiRefusal) as refused:
                await api.request("GET", "/ws/v1/partition/default/queue/root.none")
            assert refused.value.code == 404
            with pytest.raises(ApiRefusal) as refused:
                await api.request("POST", "/ws/v1/clusters", body={})
            assert refused.value.code == 405
            checked = [await api.request("POST", VALIDATE, body=body) for body in ({"partitions": []}, {"queues": []})]
            assert [one["allowed"] for one in checked] == [True, False]
            assert checked[1]["reason"].startswith("line 1: there is no field 'queues'")
            with pytest.raises(ApiRefusal) as refused:
                await api.request("POST", VALIDATE, body={"partitions": "x" * 2**20})
            assert refused.value.code == 413
            events = (await api.request("GET", "/ws/v1/events/batch"))["EventRecords"]
            assert [one["eventChangeDetail"] for one in events if one["objectID"] == "spark"][:2] == [203, 201]
            assert isinstance(await api.request("GET", "/ws/v1/history/apps"), list)
            with pytest.raises(ApiRefusal) as refused:
                await api.request("GET", STREAM, params={"count": "-1"})
            assert refused.value.code == 400
            async with asyncio.timeout(120), api.stream(STREAM, {"count": "10000"}) as lines:
                said = [json.loads(await anext(lines)) for _ in range(1 + len(events))]
            assert list(said[0]) == ["InstanceUUID"]
            assert said[1:] == events

    asyncio.run(scene())
    as_reader = ("--as", "system:serviceaccount:default:reader")
    with pytest.raises(AssertionError, match="cannot get path"):
        up.kubectl("get", "--raw", APPLICATIONS, *as_reader)
    up.kubectl("create", "serviceaccount", "reader")
    up.kubectl("create", "clusterrole", "dashboards", "--verb=get", "--non-resource-url=/ws/v1/*")
    binding = ("--clusterrole=dashboards", "--serviceaccount=default:reader")
    up.kubectl("create", "clusterrolebinding", "dashboards", *binding)
    [application] = json.loads(up.kubectl("get", "--raw", APPLICATIONS, *as_reader))
    assert application["applicationID"] == "spark"


async def is_settled(api: Connection) -> bool:
    """Whether one pod of the application runs, and the other waits; pods of tests before are gone from the count."""
    try:
        found = await api.request("GET", APPLICATIONS)
    except ApiRefusal as error:
        if error.code != 404:  # the queue is not known to the scheduler yet
            raise
        return False
    except ApiUnknown:  # the scheduler does not answer yet
        return False
    [shown] = await api.request("GET", "/ws/v1/partitions")
    counted = [(len(one["allocations"]), len(one["requests"])) for one in found]
    return counted == [(1, 1)] and (shown["totalNodes"], shown["totalContainers"]) == (4, 1)


async def looked_up(folder: Path, path: str) -> bytes:
    """Return the body of the scheduler's own answer."""
    reader, writer = await asyncio.open_unix_connection(str(folder / SOCKET))
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    found = await reader.read()
    writer.close()
    return found.partition(b"\r\n\r\n")[2]


def no_streams(group: str, path: tuple[str, ...], query: Mapping[str, str]) -> None:
    return None


class Said:
    """A stream of what a test says, of each reader the same."""

    def __init__(self) -> None:
        self.readers = 0
        self.changed = asyncio.Condition()
        self._lines: list[Object] = [{"InstanceUUID": "one"}]

    async def __call__(self) -> AsyncIterator[Sequence[Object]]:
        await self._note(1)
        at = 0
        try:
            while True:
                async with self.changed:
                    while len(self._lines) == at:
                        await self.changed.wait()
                    found, at = self._lines[at:], len(self._lines)
                yield found
        finally:
            await self._note(-1)

    async def _note(self, more: int) -> None:
        async with self.changed:
            self.readers += more
            self.changed.notify_all()

    async def say(self, *lines: Object) -> None:
        async with self.changed:
            self._lines += lines
            self.changed.notify_all()

    async def until_read_by(self, readers: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.readers == readers)


def stream_request(user: str, **query: str) -> HttpRequest:
    asked = {name: [text] for name, text in query.items()}
    return HttpRequest(method="GET", path=STREAM, query=asked, user=User(name=user), accept=(Accept(),))


async def lines_of(pieces: AsyncIterator[bytes], count: int) -> list[Object]:
    """Return the next lines of a stream."""
    text = b""
    while text.count(b"\n") < count:
        text += await anext(pieces)
    return [json.loads(line) for line in text.splitlines()]


def test_events_are_passed_on_as_they_come_to_so_many_readers(tmp_path: Path) -> None:
    async def scene() -> None:
        said = Said()

        def streams(
            group: str, path: tuple[str, ...], query: Mapping[str, str]
        ) -> AsyncIterator[Sequence[Object]] | None:
            return said() if "count" not in query else None

        def views(group: str, path: tuple[str, ...], query: Mapping[str, str]) -> Ask:
            return lambda: {"status_code": 400, "message": "no number"}

        aggregated = Aggregated(tmp_path)
        async with asyncio.timeout(120):
            async with visible(tmp_path, views, streams):
                first = await aggregated.get(stream_request("sue"))
                assert first.stream is not None
                pieces = aiter(first.stream)
                assert await lines_of(pieces, 1) == [{"InstanceUUID": "one"}]
                await said.say({"objectID": "a"}, {"objectID": "b"})
                assert await lines_of(pieces, 2) == [{"objectID": "a"}, {"objectID": "b"}]
                others = [await aggregated.get(stream_request("sue")) for _ in range(1, MOST_STREAMS_OF_ONE)]
                with pytest.raises(StatusError, match="15 of sue, of 15") as refused:
                    await aggregated.get(stream_request("sue"))
                assert refused.value.code == 503
                await said.until_read_by(MOST_STREAMS_OF_ONE)
                await first.stream.aclose()
                await said.until_read_by(MOST_STREAMS_OF_ONE - 1)  # a disconnected client delays no other
                wrong = await aggregated.get(stream_request("sue", count="x"))
                assert wrong.code == 400
                assert wrong.stream is not None
                assert [json.loads(piece) async for piece in wrong.stream] == [
                    {"status_code": 400, "message": "no number"}
                ]
            for each in others:  # the scheduler has ended, and so do they
                assert each.stream is not None
                assert [piece async for piece in each.stream][:1]
                await each.stream.aclose()

    asyncio.run(scene())


def test_a_long_look_holds_nothing_up_and_is_not_made_for_who_has_gone(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    async def scene() -> None:
        door, begun = threading.Event(), asyncio.Event()

        def views(group: str, path: tuple[str, ...], query: Mapping[str, str]) -> Ask:
            asked.append((group, *path))
            begun.set()
            return lambda: {"opened": door.wait(60.0)}  # opened by the loop: were it held up, nobody would

        async with asyncio.timeout(120), visible(tmp_path / "views", views, no_streams):
            first = asyncio.create_task(looked_up(tmp_path / "views", "/ws/v1/slow"))
            await begun.wait()
            _, gone = await asyncio.open_unix_connection(str(tmp_path / "views" / SOCKET))
            gone.write(b"GET /ws/v1/gone HTTP/1.0\r\n\r\n")
            await gone.drain()
            for _ in range(50):  # the server reads it, and waits
                await asyncio.sleep(0)
            gone.close()
            for _ in range(50):
                await asyncio.sleep(0)
            door.set()
            assert await first == b'{"opened":true}'
            assert await looked_up(tmp_path / "views", "/apis/g/last") == b'{"opened":true}'

    asyncio.run(scene())
    assert asked == [("ws", "v1", "slow"), ("g", "last")]


@pytest.mark.slow
def test_without_a_scheduler_they_are_not_available(tmp_path: Path) -> None:
    with ServerProcess.started(tmp_path) as server:
        assert server.ask("GET", APPLICATIONS).code == 503


GROUPED = """
partitions:
  - queues:
      - name: root
        submitacl: '*'
        queues:
          - name: team
            limits:
              - {limit: hers, users: [sue], maxapplications: 3}
              - {limit: theirs, groups: [dev], maxresources: {vcore: 4}}
            queues: [{name: x}]
"""


def test_users_and_groups_are_shown_with_what_they_may_have() -> None:
    with_groups = defined(GROUPED)
    one = told(pod("one", "app", "1500m", "n1"), "root.team.x")
    one = replace(one, options={**one.options, USER: "sue", GROUPS: "qa,dev"})

    def ask_of_it(*path: str) -> Any:
        return dashboards(with_groups, [one], {}, ("v1", "partition", "default", "usage", *path), {})

    [sue] = ask_of_it("users")
    assert sue["groups"] == {"app": "dev"}
    assert sue["queues"]["children"][0]["maxApplications"] == 3
    [dev] = ask_of_it("groups")
    assert (dev["groupName"], dev["applications"]) == ("dev", ["app"])
    [team] = dev["queues"]["children"]
    assert (team["maxResources"], team["resourceUsage"]["vcore"]) == ({"vcore": 4000}, 1500)
    assert ask_of_it("group", "dev") == dev
    assert ask_of_it("group", "qa")["status_code"] == 404


def test_nodes_are_counted_by_how_much_of_them_is_used() -> None:
    [found] = ask("v1/scheduler/node-utilizations")
    by = {one["type"]: [each["numOfNodes"] for each in one["utilization"]] for one in found["utilizations"]}
    assert by["vcore"] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]  # 15 of a hundred
    assert by["memory"] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
