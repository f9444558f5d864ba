"""Pods with `schedulerName: yunikorn`, where its dialect is on: they start in its queues, gangs whole."""

from __future__ import annotations

import asyncio
import json

import pytest

from phalanx.client.kind import PODS
from phalanx.client.moment import read_moment
from phalanx.dialects.enabled import YUNIKORN_REST
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS
from phalanx.model.plan import Wait
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

ON = frozenset({"yunikorn"})
_BELOW = "[{name: a, resources: {max: {vcore: 3}}}, {name: default}]"
QUEUES = f"partitions: [{{queues: [{{name: root, submitacl: '*', queues: {_BELOW}}}]}}]"


def stage_with(text: str | None = QUEUES) -> Stage:
    stage = Stage(nodes=[node("n1", 8)], dialects=ON)
    if text is not None:
        configure(stage, text)
    return stage


def configure(stage: Stage, text: str) -> None:
    meta = {"name": "yunikorn-configs", "namespace": "yunikorn"}
    stage.api.put(CONFIGURATIONS, {"metadata": meta, "data": {"queues.yaml": text}})


def pod(name: str, queue: str = "", cpu: str = "1", *, app: str = "app", **annotations: str) -> Object:
    found = double.pod(name, cpu, scheduler="yunikorn")
    found["metadata"]["labels"] = {"applicationId": app} | ({"queue": queue} if queue else {})
    found["metadata"]["annotations"] = {
        f"yunikorn.apache.org/{key.replace('_', '-')}": text for key, text in annotations.items()
    }
    return found


def reason(stage: Stage, gang: str) -> str:
    """Why it waits, as it was told last."""
    told = [action.reason for action in stage.actions if isinstance(action, Wait) and action.job == f"default/{gang}"]
    return str(told[-1]) if told else ""


def test_pods_start_within_the_queue_that_they_name() -> None:
    async def scene() -> None:
        stage = stage_with()
        for number in range(5):
            stage.put(pod(f"p{number}", "root.a"))
        stage.put(pod("other", app="other"))  # no rule: root.default
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await stage.until(lambda: "QueueLimit" in reason(stage, "application:app"))
            assert "other" in stage.api.bound()
            configure(stage, QUEUES.replace("vcore: 3", "vcore: 4"))
            await stage.until(lambda: len(stage.api.bound()) == 5)

    play(scene())


@pytest.mark.parametrize("turns", range(4))
def test_a_pod_that_comes_while_its_application_starts_respects_the_limit_of_its_queue(turns: int) -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(pod("first", "root.a", "3"))
        async with stage.scheduler():
            for _ in range(turns):
                await stage.turn()
            stage.put(pod("second", "root.a", "1"))
            await stage.until(lambda: "QueueLimit" in reason(stage, "application:app"))
            await settle(stage)
            assert len(stage.api.bound()) == 1

    play(scene())


def test_a_queue_that_a_rule_makes_is_there_while_applications_are_in_it() -> None:
    rule = "{name: provided, create: true}"
    template = "childtemplate: {resources: {max: {vcore: 2}}}"
    text = f"partitions: [{{placementrules: [{rule}], queues: [{{name: root, submitacl: '*', {template}}}]}}]"

    async def scene() -> None:
        stage = stage_with(text)
        for number in range(3):
            stage.put(pod(f"p{number}", "new.one", app=f"app{number}"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
        stage.actions.clear()
        async with stage.scheduler():  # anew
            await stage.until(lambda: any("QueueLimit" in reason(stage, f"application:app{n}") for n in range(3)))
            assert len(stage.api.bound()) == 2
            assert "yunikorn/root.new_dot_one" in stage.world.queues.queues
            for number in range(3):
                stage.api.drop(PODS, f"default/p{number}")
            await stage.until(lambda: "yunikorn/root.new_dot_one" not in stage.world.queues.queues)
            assert "yunikorn/root" in stage.world.queues.queues

    play(scene())


def test_a_gang_of_task_groups_starts_when_all_of_it_has_a_place() -> None:
    groups = json.dumps([{"name": "work", "minMember": 4, "minResource": {"cpu": "1"}}])

    async def scene() -> None:
        stage = stage_with(QUEUES.replace("vcore: 3", "vcore: 5"))
        stage.put(pod("first", "root.a", app="first"), pod("second", "root.a", app="second"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.put(pod("w0", "root.a", task_groups=groups, task_group_name="work"))
            await stage.until(lambda: "QueueLimit" in reason(stage, "app"))  # one would fit, four do not
            stage.api.drop(PODS, "default/first")
            await stage.until(lambda: "w0" in stage.api.bound())
            stage.put(pod("late", "root.a", app="late"))  # no other pod gets the gang's reserved capacity
            await stage.until(lambda: "QueueLimit" in reason(stage, "application:late"))
            for number in (1, 2, 3):
                stage.put(pod(f"w{number}", "root.a", task_group_name="work"))
            await stage.until(lambda: {"w0", "w1", "w2", "w3"} <= set(stage.api.bound()))
            assert "late" not in stage.api.bound()

    play(scene())


@pytest.mark.parametrize(
    ("style", "told"),
    [
        ("Soft", "GangScheduling first: Application app resuming as non-gang application (SOFT)"),
        ("Hard", "ApplicationFailed first: Application app scheduling failed, reason: ResourceReservationTimeout: "),
    ],
)
def test_what_becomes_of_a_gang_after_its_time_is_an_event_in_the_words_of_yunikorn(style: str, told: str) -> None:
    groups = json.dumps([{"name": "work", "minMember": 2, "minResource": {"cpu": "3"}}])
    within = f"placeholderTimeoutInSeconds=10 gangSchedulingStyle={style}"

    async def scene() -> None:
        stage = stage_with(QUEUES.replace("vcore: 3", "vcore: 30"))
        stage.put(pod("full", "root.a", "4", app="other"))
        gang = {"task_group_name": "work", "schedulingPolicyParameters": within}
        async with stage.scheduler():
            await stage.until(lambda: "full" in stage.api.bound())
            stage.put(pod("first", "root.a", "3", task_groups=groups, **gang))
            await stage.until(lambda: bool(reason(stage, "app")))
            stage.now_s = read_moment(stage.api.objects[PODS]["default/first"]["metadata"]["creationTimestamp"]) + 11.0
            stage.world.answers.touch("default/app")
            await stage.until(lambda: any(one.startswith(told) for one in recorded(stage)))

    def recorded(stage: Stage) -> list[str]:
        found = stage.world.effects.reporter._events  # no task sends them in this test
        return [f"{one['reason']} {one['involvedObject']['name']}: {one['message']}" for one in found]

    play(scene())


def test_of_an_application_the_pod_of_higher_priority_starts_first() -> None:
    async def scene() -> None:
        stage = stage_with(QUEUES.replace("vcore: 3", "vcore: 2"))
        for number in range(3):
            late = pod(f"p{number}", "root.a")
            late["spec"]["priority"] = 100 if number == 2 else 0
            stage.put(late)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage)
            assert set(stage.api.bound()) == {"p0", "p2"}

    play(scene())


def test_capacity_for_later_pods_is_held_for_the_placeholder_timeout() -> None:
    groups = json.dumps([{"name": "work", "minMember": 2, "minResource": {"cpu": "1"}}])
    gang = {"task_groups": groups, "task_group_name": "work"}

    async def scene(within: str, held_s: float) -> None:
        stage = stage_with(QUEUES.replace("vcore: 3", "vcore: 2"))
        stage.put(pod("first", "root.a", **gang, schedulingPolicyParameters=within))
        async with stage.scheduler():
            await stage.until(lambda: "first" in stage.api.bound())
            stage.put(pod("other", "root.a", app="other"))
            await stage.until(lambda: "QueueLimit" in reason(stage, "application:other"))
            stage.now_s += held_s - 1.0
            await settle(stage)
            assert "other" not in stage.api.bound()
            stage.now_s += 2.0
            await stage.until(lambda: "other" in stage.api.bound())

    play(scene("placeholderTimeoutInSeconds=40", 40.0))
    play(scene("", 900.0))


def test_a_restarted_scheduler_holds_capacity_as_long_as_the_placeholder_timeout() -> None:
    groups = json.dumps([{"name": "work", "minMember": 2, "minResource": {"cpu": "1"}}])
    gang = {"task_groups": groups, "task_group_name": "work"}

    async def scene() -> None:
        stage = stage_with(QUEUES.replace("vcore: 3", "vcore: 2"))
        stage.put(pod("first", "root.a", **gang, schedulingPolicyParameters="placeholderTimeoutInSeconds=40"))
        async with stage.scheduler():
            await stage.until(lambda: "first" in stage.api.bound())
        stage.put(pod("other", "root.a", app="other"))
        stage.now_s += 30.0
        async with stage.scheduler():
            await settle(stage)
            assert "other" not in stage.api.bound()
        stage.now_s += 20.0
        async with stage.scheduler():
            await stage.until(lambda: "other" in stage.api.bound())

    play(scene())


def test_without_a_config_map_everybody_is_in_the_default_queue() -> None:
    async def scene() -> None:
        stage = stage_with(None)
        stage.put(pod("p", "wherever"))
        async with stage.scheduler():
            await stage.until(lambda: "p" in stage.api.bound())
            assert stage.cluster.jobs["default/application:app"].job.queue == "default"
            assert list(stage.cluster.queues) == ["default"]

    play(scene())


def test_a_configuration_that_yunikorn_refuses_starts_nothing_and_says_the_line() -> None:
    async def scene() -> None:
        stage = stage_with("partitions:\n  - colour: red")
        stage.put(pod("p"))
        stage.put(double.pod("ours"))
        async with stage.scheduler():
            await stage.until(lambda: "ours" in stage.api.bound())
            await stage.until(lambda: "line 2: there is no field 'colour'" in reason(stage, "application:app"))
            await settle(stage)
            assert "p" not in stage.api.bound()
            configure(stage, QUEUES)
            await stage.until(lambda: "p" in stage.api.bound())

    play(scene())


def test_a_configuration_that_is_refused_leaves_the_last_one_in_force() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(pod("p", "root.a"))
        async with stage.scheduler():
            await stage.until(lambda: "p" in stage.api.bound())
            configure(stage, "partitions:\n  - colour: red")
            stage.put(pod("q", "root.a", "2"), pod("r", "root.a"))
            await stage.until(lambda: "q" in stage.api.bound())
            await stage.until(lambda: "QueueLimit" in reason(stage, "application:app"))
            assert "r" not in stage.api.bound()
            (told,) = [one for one in stage.world.effects.reporter._events if one["reason"] == "Invalid"]
            assert (told["type"], told["involvedObject"]["name"]) == ("Warning", "yunikorn-configs")
            assert told["message"].endswith("the last valid version stays in effect")

    play(scene())


def test_the_first_application_of_a_fifo_queue_takes_what_fits_and_a_fair_one_divides() -> None:
    async def scene(policy: str, expected: set[str]) -> None:
        below = f"[{{name: a, resources: {{max: {{vcore: 2}}}}, properties: {{application.sort.policy: {policy}}}}}]"
        stage = stage_with(f"partitions: [{{queues: [{{name: root, submitacl: '*', queues: {below}}}]}}]")
        for app in "xy":
            stage.put(*(pod(f"{app}{number}", "root.a", app=app) for number in range(2)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert set(stage.api.bound()) == expected

    play(scene("fifo", {"x0", "x1"}))
    play(scene("fair", {"x0", "y0"}))


def test_an_application_without_a_queue_waits_and_says_so() -> None:
    async def scene() -> None:
        stage = stage_with("partitions: [{queues: [{name: root, queues: [{name: a}]}]}]")
        stage.put(pod("p", "root.b"))
        async with stage.scheduler():
            await stage.until(lambda: "no placement rule" in reason(stage, "application:app"))

    play(scene())


def test_what_runs_is_found_again_after_a_restart() -> None:
    async def scene() -> None:
        stage = stage_with()
        job = double.job("theirs", 0, scheduler="yunikorn")
        stage.put(
            job | {"metadata": {"name": "theirs", "namespace": "default"}, "spec": job["spec"] | {"suspend": False}}
        )
        for number in range(3):
            stage.put(of_a_job(pod(f"p{number}", "root.a"), stage.api.job("theirs")["metadata"]["uid"]))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
        stage.put(pod("p3", "root.a"))
        async with stage.scheduler():
            await stage.until(lambda: "3 of its 4 pods have a node" in reason(stage, "application:app"))
            await settle(stage)
            assert set(stage.cluster.jobs) == {"default/application:app"}
            assert len(stage.api.bound()) == 3

    def of_a_job(obj: Object, uid: str) -> Object:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": uid, "controller": True}
        return obj | {"metadata": obj["metadata"] | {"ownerReferences": [owner]}}

    play(scene())


def test_a_bound_on_applications_counts_applications_and_not_their_pods() -> None:
    async def scene() -> None:
        stage = stage_with(QUEUES.replace("resources: {max: {vcore: 3}}", "maxapplications: 1"))
        stage.put(*(pod(f"a{number}", "root.a", app="one") for number in range(3)))
        stage.put(pod("b0", "root.a", app="two"))
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"a0", "a1", "a2"})
            await stage.until(lambda: "QueueLimit" in reason(stage, "application:two"))
            stage.put(pod("a3", "root.elsewhere", app="one"))  # its first pod said the queue
            await stage.until(lambda: "a3" in stage.api.bound())
            for number in range(4):
                stage.finish(f"a{number}")
            await stage.until(lambda: "b0" in stage.api.bound())

    play(scene())


LIMITED = """
partitions:
  - queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
            limits:
              - {limit: one, users: [sue], maxapplications: 1, maxresources: {vcore: 2}}
              - {limit: others, users: ['*'], maxresources: {vcore: 1}}
              - {limit: together, groups: [dev], maxresources: {vcore: 3}}
              - {limit: all, groups: ['*'], maxresources: {vcore: 2}}
            queues: [{name: x}, {name: 'y'}]
"""


def of(user: str, *groups: str) -> str:
    return json.dumps({"user": user, "groups": list(groups)})


def test_a_limit_on_a_queue_counts_what_a_user_and_a_group_have_in_all_below_it() -> None:
    async def scene() -> None:
        stage = stage_with(LIMITED)
        sue, kim, bob = (of(name, "dev") for name in ("sue", "kim", "bob"))
        stage.put(
            pod("s0", "root.a.x", app="s", **{"user.info": sue}), pod("s1", "root.a.x", app="s", **{"user.info": sue})
        )
        async with stage.scheduler():
            await stage.until(lambda: set(stage.api.bound()) == {"s0", "s1"})
            stage.put(pod("t0", "root.a.y", app="t", **{"user.info": sue}))  # in another leaf, of the same user
            await stage.until(lambda: "user 'sue'" in reason(stage, "application:t"))
            stage.put(*(pod(f"k{number}", "root.a.y", app="k", **{"user.info": kim}) for number in range(2)))
            await stage.until(lambda: {"k0", "s0", "s1"} == set(stage.api.bound()))
            await stage.until(lambda: "user 'kim'" in reason(stage, "application:k"))
            stage.put(pod("b0", "root.a.x", app="b", **{"user.info": bob}))  # dev has its three
            await stage.until(lambda: "group 'dev'" in reason(stage, "application:b"))
            guests = {name: of(name, "qa") for name in ("g0", "g1", "g2")}  # of no group that is named: one pot of two
            for name, said in guests.items():
                stage.put(pod(name, "root.a.x", app=name, **{"user.info": said}))
            await stage.until(lambda: {"k0", "s0", "s1", "g0", "g1"} == set(stage.api.bound()))
            await stage.until(lambda: "group '*'" in reason(stage, "application:g2"))
            stage.finish("s0")
            stage.finish("s1")
            await stage.until(lambda: {"t0", "b0"} <= set(stage.api.bound()))
            await settle(stage)
            assert not {"k1", "g2"} & set(stage.api.bound())

    play(scene())


def test_a_stream_tells_what_happens_when_it_happens() -> None:
    async def scene() -> None:
        stage = stage_with()
        async with stage.scheduler():
            lines = stage.world.answers.reports.stream(YUNIKORN_REST, ("v1", "events", "stream"), {})
            assert lines is not None
            [first] = await anext(lines)
            assert list(first) == ["InstanceUUID"]
            coming = asyncio.ensure_future(anext(lines))
            await settle(stage)
            assert not coming.done()
            stage.put(pod("p"))
            await stage.until(coming.done)
            assert coming.result()[0]["objectID"] == "app"
            assert stage.world.answers.reports.stream(YUNIKORN_REST, ("v1", "partitions"), {}) is None

    play(scene())


@pytest.mark.parametrize("bounded", [False, True])
def test_small_applications_overtake_a_gang_unless_their_pods_end_in_time(bounded: bool) -> None:
    """A gang holds nothing while it waits. Once it is known when the others end, the capacity is reserved for it."""
    groups = json.dumps([{"name": "work", "minMember": 8, "minResource": {"cpu": "1"}}])

    def small(name: str) -> Object:
        found = pod(name, "root.default", "4", app=name)
        if bounded:
            found["spec"]["activeDeadlineSeconds"] = 100
        return found

    async def scene() -> None:
        stage = stage_with()
        stage.put(small("s0"), small("s1"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.put(*(pod(f"w{n}", "root.default", task_groups=groups, task_group_name="work") for n in range(8)))
            for number in range(2, 8):  # one ends, and another one exists
                await settle(stage)
                stage.put(small(f"s{number}"))
                await settle(stage)
                ended = [name for name in stage.api.bound() if name.startswith("s")]
                stage.finish(min(ended, key=lambda name: stage.api.objects[PODS][f"default/{name}"]["status"]["phase"]))
                stage.now_s += 30.0
            await settle(stage)
            started = [name[0] for name in stage.api.bound()]
            assert (started.count("w"), started.count("s") == 8) == ((8, False) if bounded else (0, True))

    play(scene())
