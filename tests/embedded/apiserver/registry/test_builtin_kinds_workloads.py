"""`registry/builtin_kinds/workloads.py`: the kinds of `apps` and `batch`."""

from __future__ import annotations

from phalanx.embedded.apiserver.registry.builtin import emulating
from phalanx.embedded.apiserver.registry.builtin_kinds.workloads import JOBS, WORKLOADS


def test_daemon_sets_and_jobs_have_no_scale() -> None:
    scales = {one.kind: any(sub.name == "scale" for sub in one.subresources) for one in WORKLOADS}
    assert [kind for kind, has_scale in scales.items() if not has_scale] == ["DaemonSet", "CronJob", "Job"]
    assert all((one.scale is not None) is scales[one.kind] for one in WORKLOADS)


def test_only_jobs_differ_between_releases() -> None:
    before, after = (emulating(version) for version in ("1.35", "1.36"))
    assert [one.kind for one, other in zip(before, after, strict=True) if one is not other] == [JOBS.kind]
