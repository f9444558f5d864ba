"""Odd labels, annotations and specs, as any tenant can write them: what the API server lets in, and a little more."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from phalanx.kube.read import labels

Object = dict[str, Any]

KEYS = sorted(
    {value for value in vars(labels).values() if isinstance(value, str) and value.startswith("phalanx.dev/")}
    | {labels.COMPLETION_INDEX}
)
DEEP = "[" * 20_000 + "]" * 20_000
NESTED = '{"a":' * 5_000 + "1" + "}" * 5_000
CHAIN = json.dumps([{"name": f"g{n}", "parent": f"g{n + 1}", "minimum": 1} for n in range(3_000)])
ODD_TEXTS = (
    *("", " ", "²", "①", "٣", "-1", "0", "1", "4", "1e3", "1_000", "1.5", "nan", "inf", "-inf", "NaN", "9" * 5_000),
    *("true", "false", "null", "[]", "{}", "[[]]", "[{}]", '"x"', "{", DEEP, NESTED, CHAIN, "\x00", "a" * 10_000),
    *("3 of 5", "² of ²", "2 of " + "9" * 5_000, "1 of none", " of ", "9" * 5_000 + " of 1", "600 of " + "9" * 5_000),
    *("4@", "@zone", "4@zone", "a:ok,b:any", "a:b:c", ",,,", "/", "1h", "9" * 400 + "h", "1e999s", "00:00:00"),
    *("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "+272020-01-01T00:00:00Z"),
    *("cpu=3", "cpu=", "=3", "cpu=1e400", "cpu=1e-400", '{"cpu": 1e308}', '{"cpu": "1e9999999"}', "cpu=" + "9" * 5_000),
    *('{"attempt": 1, "queue": "default", "count": 1}', '{"attempt": 1e400, "queue": 5, "count": "x"}'),
    *('{"attempt": 99999999999999999999999, "queue": "q", "count": -1, "at_s": 1e308, "limit_s": -1e308}',),
    *('{"attempt": 1, "queue": "default", "count": 1, "at_s": 1e300, "limit_s": 1e300, "flavors": ["x", "y"]}',),
    *('{"by": "default/x", "start_s": 1e308}', '{"by": 1, "start_s": "x"}'),
    *('[{"name": "a", "parent": "a"}]', '[{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]'),
    *('[{"name": "a", "minimum": 99999999999}]', '[{"name": "0", "memory": "1e9999999", "zone": ["x"]}]'),
)
texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=20))
words = st.dictionaries(st.sampled_from(KEYS), texts, max_size=4)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
junk = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
POD_FIELDS = (
    *("affinity", "containers", "initContainers", "nodeSelector", "overhead", "priority", "resources", "tolerations"),
    *("schedulingGates", "topologySpreadConstraints", "volumes", "resourceClaims", "activeDeadlineSeconds"),
    *("runtimeClassName", "priorityClassName", "preemptionPolicy", "schedulerName", "terminationGracePeriodSeconds"),
)
JOB_FIELDS = ("parallelism", "completions", "completionMode", "managedBy", "activeDeadlineSeconds", "suspend")
pod_parts = st.dictionaries(st.sampled_from(POD_FIELDS), junk, max_size=3)
job_parts = st.dictionaries(st.sampled_from(JOB_FIELDS), junk, max_size=2)
status_parts = st.dictionaries(
    st.sampled_from(("conditions", "failedIndexes", "succeeded", "containerStatuses", "phase", "allocatable")),
    junk,
    max_size=2,
)


def with_words(obj: Object, annotations: dict[str, str], said: dict[str, str]) -> Object:
    meta = obj["metadata"]
    meta = {**meta, "annotations": {**meta.get("annotations", {}), **annotations}, "labels": {**meta["labels"], **said}}
    return {**obj, "metadata": meta}
