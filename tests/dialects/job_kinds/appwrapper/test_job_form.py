"""`dialects/job_kinds/appwrapper/job_form.py`: presents an AppWrapper to the scheduler."""

from __future__ import annotations

import pytest

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER
from tests.dialects.job_kinds.appwrapper.wrappers import job, wrapper


def test_its_priority_is_that_of_its_pods_to_the_queue() -> None:
    view = APP_WRAPPER.view(wrapper({"generictemplate": job()}, priority=-5), "0-0")
    assert view["spec"]["template"]["spec"]["priority"] == -5


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ({"state": "Completed"}, "Complete"),
        ({"state": "Failed"}, "Failed"),
        ({"state": "Running", "Succeeded": 1}, "Complete"),
        ({"state": "Running", "Succeeded": 1, "running": 1}, ""),
        ({"state": "Pending"}, ""),
    ],
)
def test_its_room_is_free_when_its_pods_are_done(status: Object, ended: str) -> None:
    view = APP_WRAPPER.view({**wrapper({"generictemplate": job()}), "status": status}, "0-0")
    assert [one["type"] for one in view["status"]["conditions"]] == ([ended] if ended else [])
