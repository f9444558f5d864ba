"""`dialects/yunikorn/gangs.py`: translates the labels and annotations of YuniKorn's pods into those of Phalanx."""

from __future__ import annotations

import json

import pytest

from phalanx.client.quantity import amount
from phalanx.dialects.frame.dialect import Said
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS, NAMESPACE
from phalanx.dialects.yunikorn.dialect import YUNIKORN as YUNIKORN_DIALECT
from phalanx.dialects.yunikorn.gangs import GROUPS as GROUPS_WORD
from phalanx.dialects.yunikorn.gangs import QUEUE_PREFIX, USER, options_of, queue_of
from phalanx.dialects.yunikorn.gangs import SCHEDULER_NAME as YUNIKORN
from tests.dialects.yunikorn.test_dialect import GROUPS, PAGE, meta


def test_the_first_pod_says_what_the_whole_gang_asks_for() -> None:
    found = options_of(
        meta({"applicationId": "app", "queue": "root.a"}, task_groups=GROUPS, task_group_name="driver"), YUNIKORN
    )
    resources = json.loads(found["phalanx.dev/min-resources"])
    assert {key: text for key, text in found.items() if key != "phalanx.dev/min-resources"} == {
        "phalanx.dev/queue": "yunikorn/",
        "yunikorn/queue": ":root.a",
        "phalanx.dev/job": "app",
        "phalanx.dev/role": "driver",
        "phalanx.dev/min-available": "4",
    }
    assert {name: amount(name, text) for name, text in resources.items()} == {"cpu": 3500, "memory": 1 << 30}


def test_which_name_of_an_application_and_which_queue_count() -> None:
    labels = {"yunikorn.apache.org/app-id": "one", "applicationId": "two", "queue": "c"}
    found = options_of(meta(labels, app_id="three", queue="b", task_group_name="g"), YUNIKORN)
    assert (found["phalanx.dev/job"], queue_of(found["phalanx.dev/queue"], found)) == ("one", "b")
    found = options_of(meta({}, task_group_name="g"), YUNIKORN)
    assert (found["phalanx.dev/job"], queue_of(found["phalanx.dev/queue"], found)) == ("yunikorn-ns-autogen", "")
    alone = options_of(meta({"queue": "a"}), YUNIKORN)
    assert "phalanx.dev/job" not in alone
    assert queue_of(alone["phalanx.dev/queue"], alone) == "a"


@pytest.mark.parametrize(
    "groups", ["", "no JSON", "{}", "[{}]", '[{"name": "a", "minMember": 0, "minResource": {"cpu": 1}}]', "[" * 2000]
)
def test_a_pod_without_a_task_group_that_can_be_read_is_no_member_of_a_gang(groups: str) -> None:
    alone = meta({"applicationId": "app"}, task_groups=groups)
    named = meta({"applicationId": "app"}, task_groups=groups, task_group_name="a")
    for each in (alone, named):
        assert options_of(each, YUNIKORN) == {
            "phalanx.dev/queue": "yunikorn/",
            "phalanx.dev/job": "application:app",
            "yunikorn/queue": ":",
        }
        [note] = YUNIKORN_DIALECT.notes("Pod", {"metadata": each})
        assert "has no valid task group, so the pods start one by one" in note


def test_a_pod_that_names_a_task_group_of_another_pod_is_in_the_gang() -> None:
    executor = meta({"applicationId": "app"}, task_group_name="a")
    assert options_of(executor, YUNIKORN)["phalanx.dev/job"] == "app"
    assert list(YUNIKORN_DIALECT.notes("Pod", {"metadata": executor})) == []


def test_pods_of_another_scheduler_or_with_a_queue_of_ours_say_nothing() -> None:
    assert options_of(meta({"applicationId": "app"}, task_group_name="g"), "phalanx") == {}
    assert options_of(meta({"phalanx.dev/queue": "default"}, task_group_name="g"), YUNIKORN) == {}


@pytest.mark.parametrize(
    ("user", "groups", "queue", "vcore", "running"),
    [
        ("sue", "dev", "root.a.sue", 4, 2),
        ("kim", "qa,dev", "root.a.dev", 40, 20),
        ("bob", "qa", "root.a.others", None, None),
    ],
)
def test_the_page_gives_named_users_and_groups_limits_of_their_own(
    user: str, groups: str, queue: str, vcore: int | None, running: int | None
) -> None:
    text = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    defined = YUNIKORN_DIALECT.define(
        {CONFIGURATIONS: {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": text}}}}
    )
    options = {USER: user, GROUPS_WORD: groups}
    claim = YUNIKORN_DIALECT.claim(defined, Said(gang="g", namespace="n", queue=QUEUE_PREFIX, options=options), {})
    assert claim is not None
    assert (claim.queue, claim.blocked) == (QUEUE_PREFIX + queue, None)
    [found] = [one for one in defined.queues if one.name == claim.queue]
    assert [dict(quota.limit) for quota in found.quotas] == ([{"cpu": vcore * 1000}] if vcore else [])
    assert found.total.running == running
    assert found.per_user.running == (1 if user == "bob" else None)
