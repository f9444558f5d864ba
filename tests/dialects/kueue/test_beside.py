"""The generator of scenarios for `tests.dialects.kueue.beside`: what it makes can be played."""

from __future__ import annotations

import pytest

from tests.dialects.kueue.beside.generator import FAMILIES, scenario

VERBS = {"apply", "pause", "finish", "delete", "patch"}


@pytest.mark.parametrize("seed", range(2 * len(FAMILIES)))
def test_a_scenario_is_made_of_its_seed_and_names_what_it_made(seed: int) -> None:
    made = scenario(seed)
    assert made.document() == scenario(seed).document()
    objects = [obj for step in made.steps for obj in step.get("apply", ())]
    queues = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "LocalQueue"}
    jobs = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "Job"}
    assert all(obj["metadata"]["name"].startswith(f"g{seed}") for obj in objects)
    assert {obj["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] for obj in jobs.values()} <= queues
    assert jobs
    for step in made.steps:
        assert step.keys() <= VERBS
        named = [one.partition(":")[0] for one in step.get("finish", ())]
        assert jobs.keys() >= {*named, *(one.removeprefix("Job ") for one in step.get("delete", ()))}
