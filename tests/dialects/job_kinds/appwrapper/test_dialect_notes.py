"""Settings without an effect are reported on their object."""

from __future__ import annotations

from phalanx.dialects.job_kinds.appwrapper.dialect import APP_WRAPPER_DIALECT


def test_what_has_no_effect_is_said_of_the_object() -> None:
    components = [{"template": {}, "annotations": {"a": "b"}}]
    notes = {"workload.codeflare.dev.appwrapper/retryLimit": "1", "workload.codeflare.dev.appwrapper/odd": "1"}
    labels = {"orderedinstance": "m5.xlarge_g4dn.xlarge", "team": "a"}
    obj = {"metadata": {"annotations": notes, "labels": labels}, "spec": {"components": components}}
    assert [text.partition(" ")[0] for text in APP_WRAPPER_DIALECT.notes("AppWrapper", obj)] == [
        "spec.components[].annotations",
        "workload.codeflare.dev.appwrapper/odd",
        "orderedinstance",
    ]
