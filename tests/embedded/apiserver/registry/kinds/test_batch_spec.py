"""Jobs: defaults, the generated selector, validation, and what may change while a Job is suspended."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.kinds.batch.job import JobStrategy
from tests.embedded.apiserver.registry.kinds.writes import (
    CONTAINER,
    Object,
    create,
    job,
    refusal,
    stored,
    update,
    update_refusal,
)

MADE = {
    "batch.kubernetes.io/controller-uid": "uid-1",
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": "uid-1",
    "job-name": "j",
}


def template(**spec: Any) -> Object:
    return {"spec": {"restartPolicy": "Never", "containers": [CONTAINER], **spec}}


def test_a_minimal_job_gets_its_defaults() -> None:
    obj = create("jobs", job())
    assert {key: value for key, value in obj["spec"].items() if key not in ("template", "selector")} == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert obj["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert "enableServiceLinks" not in obj["spec"]["template"]["spec"]
    assert obj["status"] == {}


def test_selector_and_labels_are_generated() -> None:
    obj = create("jobs", job())
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-1"}}
    assert obj["spec"]["template"]["metadata"]["labels"] == MADE
    assert obj["metadata"]["labels"] == MADE


def test_a_jobs_own_labels_stay_alone() -> None:
    obj = create("jobs", {**job(), "metadata": {"name": "j", "labels": {"own": "1"}}})
    assert obj["metadata"]["labels"] == {"own": "1"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"completions": 3}, {"completions": 3, "parallelism": 1}),
        ({"parallelism": 3}, {"completions": None, "parallelism": 3}),
        ({"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}, {"backoffLimit": 2147483647}),
        ({"completionMode": "Indexed"}, {"completions": 1}),
        (
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
            {"podReplacementPolicy": "Failed"},
        ),
    ],
)
def test_defaults_depend_on_each_other(spec: Object, expected: Object) -> None:
    found = create("jobs", job(**spec))["spec"]
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        (
            {"template": {"spec": {"containers": [CONTAINER]}}},
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
        ),
        ({"parallelism": -1}, ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"completionMode": "Odd"},
            ['spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"'],
        ),
        (
            {"backoffLimitPerIndex": 1},
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            {"completionMode": "Indexed", "parallelism": 2},
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            [
                'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: '
                "requires indexed completion mode"
            ],
        ),
        (
            {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "2,5"}]}},
            [
                'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "2,5": '
                'error parsing succeededIndexes: too large index: "5"'
            ],
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}},
            [
                "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: "
                "must not be 0 for the In operator"
            ],
        ),
        (
            {"podFailurePolicy": {"rules": []}, "template": template(restartPolicy="OnFailure")},
            [
                'spec.template.spec.restartPolicy: Invalid value: "OnFailure": '
                'only "Never" is supported when podFailurePolicy is specified'
            ],
        ),
        (
            {"managedBy": "me"},
            ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'],
        ),
    ],
)
def test_wrong_jobs_are_refused(spec: Object, lines: list[str]) -> None:
    assert refusal("jobs", job(**spec)) == lines


def test_a_selector_of_ones_own_needs_to_be_manual() -> None:
    own = {"selector": {"matchLabels": {"a": "b"}}, "template": template() | {"metadata": {"labels": {"a": "b"}}}}
    assert refusal("jobs", job(**own))[0].endswith("`selector` not auto-generated")
    assert refusal("jobs", job(**own, manualSelector=True)) == []


def test_an_index_must_fit_into_a_host_name() -> None:
    """The last pod of an Indexed Job is called NAME-COMPLETIONS-1."""
    body = job(completionMode="Indexed", completions=11) | {"metadata": {"name": "j" * 61}}
    assert refusal("jobs", body)[-1].endswith(f"will not able to create pod with invalid DNS label: {'j' * 61}-10")


# --- updates ---------------------------------------------------------------------------------------------------------


def test_a_running_job_may_change_its_pace_only() -> None:
    old = stored("jobs", job())
    free = {"parallelism": 3, "backoffLimit": 2, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 1}
    assert update("jobs", old, {"spec": free})["metadata"]["generation"] == 2
    for key, value in (("completions", 5), ("completionMode", "Indexed"), ("managedBy", "example.com/me")):
        shown = f'"{value}"' if isinstance(value, str) else value
        assert f"spec.{key}: Invalid value: {shown}: field is immutable" in update_refusal(
            "jobs", old, {"spec": {key: value}}
        )


DIRECTIVES: list[Object] = [
    {"nodeSelector": {"a": "b"}},
    {"tolerations": [{"key": "k", "operator": "Exists"}]},
    {"schedulingGates": [{"name": "example.com/g"}]},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}},
]


@pytest.mark.parametrize("directive", DIRECTIVES, ids=lambda one: next(iter(one)))
def test_directives_of_a_suspended_job_may_change(directive: Object) -> None:
    change = {"spec": {"template": {"spec": directive}}}
    assert update_refusal("jobs", stored("jobs", job(suspend=True)), change) == []
    running = update_refusal("jobs", stored("jobs", job()), change)
    assert [line.split(":")[0] for line in running] == ["spec.template"]


def test_resources_of_a_suspended_job_may_change_and_images_may_not() -> None:
    old = stored("jobs", job(suspend=True))
    container = old["spec"]["template"]["spec"]["containers"][0]
    sized = {"containers": [container | {"resources": {"requests": {"cpu": "1"}}}]}
    assert update_refusal("jobs", old, {"spec": {"template": {"spec": sized}}}) == []
    other = {"containers": [container | {"image": "z"}]}
    (line,) = update_refusal("jobs", old, {"spec": {"template": {"spec": other}}})
    assert line.startswith("spec.template.spec: Invalid value:")


def test_a_job_suspended_again_opens_when_its_pods_are_gone() -> None:
    old = stored("jobs", job(suspend=True))
    change = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    condition = [{"type": "Suspended", "status": "True"}]
    old["status"] = {"startTime": "2026-01-01T00:00:00Z", "active": 1, "conditions": condition}
    assert update_refusal("jobs", old, change) != []
    old["status"]["active"] = 0
    assert update_refusal("jobs", old, change) == []


FRESH, RAN = {"status": {}}, {"status": {"startTime": "2026-01-01T00:00:00Z"}}
SEEN = {"status": {**RAN["status"], "conditions": [{"type": "Suspended", "status": "True"}]}}
BUSY = {"status": {**SEEN["status"], "active": 1}}


@pytest.mark.parametrize(
    ("version", "opens"),
    [
        ("1.35", {"fresh": True, "ran": False, "seen": False, "busy": False}),
        ("1.36.0", {"fresh": False, "ran": False, "seen": True, "busy": False}),
        ("1.36", {"fresh": True, "ran": False, "seen": True, "busy": False}),
    ],
)
def test_when_a_template_may_change_is_as_the_version_has_it(version: str, opens: dict[str, bool]) -> None:
    jobs, seen = JobStrategy(version), {"fresh": FRESH, "ran": RAN, "seen": SEEN, "busy": BUSY}
    for state, words in seen.items():
        old = stored("jobs", job(suspend=True)) | words
        changed = copy.deepcopy(old)
        changed["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
        assert (jobs.validate_update(changed, old) == []) is opens[state], state


def test_before_1_36_resources_of_a_suspended_job_stay() -> None:
    old = stored("jobs", job(suspend=True))
    changed = copy.deepcopy(old)
    changed["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert JobStrategy("1.36").validate_update(changed, old) == []
    (cause,) = JobStrategy("1.35").validate_update(changed, old)
    assert cause.line().startswith("spec.template.spec: Invalid value:")


def test_completions_of_an_elastic_job_follow_its_parallelism() -> None:
    old = stored("jobs", job(completionMode="Indexed", completions=2, parallelism=2))
    assert update_refusal("jobs", old, {"spec": {"completions": 3, "parallelism": 3}}) == []
    assert update_refusal("jobs", old, {"spec": {"completions": 3}}) == [
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    ]


# --- cron jobs -------------------------------------------------------------------------------------------------------


CRON_ERROR = 'spec.schedule: Invalid value: "{}": {}'
REVERSED = "beginning of range (5) beyond end of range (3): 5-3"


def cron(**spec: Any) -> Object:
    body = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template()}}}
    return {"metadata": {"name": "c"}, "spec": body | spec}


def test_a_cron_job_gets_its_defaults() -> None:
    spec = create("cronjobs", cron())["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"schedule": ""}, "spec.schedule: Required value"),
        (
            {"schedule": "* *"},
            'spec.schedule: Invalid value: "* *": expected exactly 5 fields, found 2: [* *]',
        ),
        ({"schedule": "61 * * * *"}, CRON_ERROR.format("61 * * * *", "end of range (61) above maximum (59): 61")),
        ({"schedule": "* * 0 * *"}, CRON_ERROR.format("* * 0 * *", "beginning of range (0) below minimum (1): 0")),
        ({"schedule": "* 5-3 * * *"}, CRON_ERROR.format("* 5-3 * * *", REVERSED)),
        (
            {"schedule": "*/0 * * * *"},
            CRON_ERROR.format("*/0 * * * *", "step of range should be a positive number: */0"),
        ),
        (
            {"schedule": "TZ=UTC * * * * *"},
            'spec.schedule: Invalid value: "TZ=UTC * * * * *": '
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ),
        ({"timeZone": "Moon/Base"}, 'spec.timeZone: Invalid value: "Moon/Base": unknown time zone Moon/Base'),
        (
            {"concurrencyPolicy": "Odd"},
            'spec.concurrencyPolicy: Unsupported value: "Odd": supported values: "Allow", "Forbid", "Replace"',
        ),
    ],
)
def test_wrong_cron_jobs_are_refused(spec: Object, line: str) -> None:
    assert refusal("cronjobs", cron(**spec)) == [line]
