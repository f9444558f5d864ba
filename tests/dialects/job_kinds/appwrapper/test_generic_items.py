"""`dialects/job_kinds/appwrapper/generic_items.py`: translates an AppWrapper of the first generation (MCAD."""

from __future__ import annotations

from phalanx.dialects.job_kinds.appwrapper.generic_items import demand, read
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER
from tests.dialects.job_kinds.appwrapper.wrappers import POD, job, wrapper


def test_its_pods_are_found_where_mcad_finds_them_and_labelled_as_mcad_labels_them() -> None:
    custom = {
        "apiVersion": "x/v1",
        "kind": "Odd",
        "metadata": {"name": "o"},
        "spec": {"replicas": 3, "template": {"spec": POD}},
    }
    aw = wrapper({"generictemplate": job()}, {"generictemplate": custom}, schedulingSpec={"nodeSelector": {"a": "b"}})
    aw["spec"]["resources"]["GenericItems"].append({"generictemplate": {"kind": "Service"}})
    first, second, service = read(aw)["spec"]["components"]
    want = {"appwrapper.mcad.ibm.com": "aw", "resourceName": "j"}
    assert first["template"]["metadata"]["labels"] == want
    assert first["template"]["spec"]["template"]["metadata"]["labels"] == want
    assert second["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert [(APP_WRAPPER.view(aw, role)["spec"]["parallelism"]) for role in APP_WRAPPER.roles(aw)] == [1, 3]
    assert service["template"]["metadata"]["labels"]["resourceName"] == "", (
        "it has no pods, and is wrapped all the same"
    )
    assert demand(aw["spec"]) == {"totalcpu": 2000, "totalmemory": 0, "totalgpu": 0}
    asked = {"replicas": 2, "requests": {"cpu": 1, "nvidia.com/gpu": 0}, "limits": {"cpu": 2, "nvidia.com/gpu": 4}}
    said = wrapper({"generictemplate": job(), "custompodresources": [asked]})["spec"]
    assert demand(said) == {"totalcpu": 2000, "totalmemory": 0, "totalgpu": 8}
