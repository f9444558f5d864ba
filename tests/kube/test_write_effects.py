"""`kube/write/effects.py`: users are told of objects that cannot be read."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS
from tests.kube.double import Object, job, node
from tests.kube.odd_objects import with_words
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


def odd_job(parts: Object, spec: Object, annotations: dict[str, str]) -> Object:
    obj = with_words(job("odd", 1), annotations, {})
    template = {"spec": {**obj["spec"]["template"]["spec"], **parts}}
    return {**obj, "spec": {**obj["spec"], **spec, "template": template}}


def test_an_object_that_cannot_be_read_says_so_in_an_event_and_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """Once, however often it is seen; when it is mended it counts."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.api.put(JOBS, odd_job({}, {"parallelism": {"a": 1}}, {}))
        async with stage.scheduler():
            await settle(stage)
            stage.change("odd", {}, {"note": "still odd"})
            await settle(stage)
            events = [one for one in stage.world.effects.reporter._events if one["reason"] == "Invalid"]
            assert [one["involvedObject"]["name"] for one in events] == ["odd"]
            assert "cannot be read" in events[0]["message"]
            stage.controller.skips = set()
            stage.change("odd", {"parallelism": 1})
            await stage.until(lambda: len(stage.api.bound()) == 1)
        assert len([one for one in caplog.records if "Job default/odd" in one.message]) == 1

    play(scene())
