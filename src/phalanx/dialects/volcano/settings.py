"""State how Phalanx uses each action, plugin and argument in the configuration of Volcano's scheduler.

The page docs/dialects/volcano.md shows this table. An event on the ConfigMap lists the settings that have no effect,
and `phalanx migrate --from volcano` lists all settings.


Source: pkg/scheduler/{actions,plugins} of v1.15.1; docs/user-guide and the site's page of each plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use
from phalanx.dialects.volcano.definitions.configuration import (
    Setting,
    VolcanoConfigurationError,
    read_configuration,
    settings,
    text_of,
)

_ALWAYS: Final = "done always"
_WITHIN: Final = Becomes(
    "QueuePreemption.within", "in each Queue jobs of lower priority are preempted; without it none is"
)
_RECLAIM: Final = Becomes("QueuePreemption.reclaim", "without it no Queue reclaims its share")
_SCORE: Final = Ignored("the whole cluster has one score: `--policy` says `score: pack` (the default) or `spread`")
_NEAR: Final = Ignored("few HyperNodes are always better than many; there are no weights")
_REVOCABLE: Final = Ignored("reservations set nodes aside for a time (docs/guide/queues.md)")
_TAKEN: Final = Ignored("nothing is taken up before it can start, so nothing has to be limited beforehand")
_USED: Final = Ignored("what pods ask counts, not what they use")
_MOVED: Final = Ignored("nothing is moved that runs")
_WHOLE: Final = Ignored("devices of nodes are counted whole, or by phalanx.dev/gpu-fraction (docs/guide/kubernetes.md)")
_ZONES: Final = Ignored("the tightest zone that holds a pod is taken; there are no weights")
_EXTENDER: Final = Ignored("nobody else is asked")

SETTINGS: Final[Mapping[str, Use]] = {
    "action enqueue": Becomes("the cycle", f"{_ALWAYS}: who has no room waits with its pods, and holds nothing"),
    "action allocate": Becomes("the cycle", _ALWAYS),
    "action backfill": Becomes("the cycle", f"{_ALWAYS}; besides, EASY backfilling keeps the first job's start"),
    "action preempt": _WITHIN,
    "action gangpreempt": _WITHIN,
    "action reclaim": _RECLAIM,
    "action gangreclaim": _RECLAIM,
    "action shuffle": _MOVED,
    "plugin priority": Becomes("Queue.order", "without it jobs of a queue, and pods of a job, come by age alone"),
    "plugin gang": Becomes("Role.minimum", _ALWAYS),
    "plugin conformance": Becomes(
        "the cycle", f"{_ALWAYS}: pods of kube-system, and of the system's classes, are never victims"
    ),
    "plugin drf": Becomes("Queue.order", "`tiered` between queues; of one queue's jobs priority and age decide"),
    "plugin proportion": Becomes(
        "Queue.weight", "queues share by weight, `reclaim` goes down to that; `deserved` is not read"
    ),
    "plugin capacity": Becomes(
        "Quota.guaranteed", "`deserved` is guaranteed, `capability` the limit, `guarantee` not lent"
    ),
    "plugin predicates": Becomes("the cycle", "all of kube-scheduler's, always"),
    "plugin nodeorder": _SCORE,
    "plugin binpack": Becomes("Policy.score", "`pack`, the default"),
    "plugin overcommit": _TAKEN,
    "plugin sla": Ignored("backfill reserves the start of the first job, so that a large job does not starve"),
    "plugin tdm": _REVOCABLE,
    "plugin cdp": Ignored("queues say how long a job is spared: preemption.minRun (docs/guide/queues.md)"),
    "plugin task-topology": Ignored("write affinity in the tasks' templates"),
    "plugin numa-aware": Becomes(
        "Shape.aligned", "always: by topologyPolicy, of pods of any class, Numatopologies or not"
    ),
    "plugin nodegroup": Becomes("Quota.flavor", "required groups of a Queue's affinity; a group is a label of nodes"),
    "plugin network-topology-aware": Becomes("Topology", "HyperNodes are levels, always"),
    "plugin usage": _USED,
    "plugin rescheduling": _MOVED,
    "plugin pdb": Becomes("the cycle", f"{_ALWAYS}: budgets are kept"),
    "plugin resourcequota": Becomes("the cycle", f"{_ALWAYS}: no gang starts whose pods a quota would refuse"),
    "plugin deviceshare": _WHOLE,
    "plugin resource-strategy-fit": _SCORE,
    "plugin extender": _EXTENDER,
    "argument capacity.enableHierarchy": Becomes(
        "Queue.parent", "always: `spec.parent` is a tree, and inner queues run jobs too"
    ),
    "argument capacity.ancestorReclaimLevel": Ignored("victims come first from the queue with the highest share"),
    "argument capacity.*": Ignored("resource claims have no quota: devices are counted as resources of nodes"),
    "argument drf.enableHierarchy": Ignored(
        "write spec.parent in Queues; the annotations volcano.sh/hierarchy are not read"
    ),
    "argument nodegroup.enableHierarchy": Becomes(
        "Quota.flavor", "always: a queue uses the flavors of the nearest above it"
    ),
    "argument nodegroup.strict": Ignored("nodes without the label take pods of queues without affinity"),
    "argument nodegroup.enablePreferredOrder": Ignored("required groups are tried in their order"),
    "argument overcommit.overcommit-factor": _TAKEN,
    "argument sla.*": Ignored("backfill reserves the start of the first job"),
    "argument nodeorder.*": _SCORE,
    "argument binpack.*": _SCORE,
    "argument resource-strategy-fit.*": _SCORE,
    "argument predicates.*": Ignored("kube-scheduler's filters are not switched off"),
    "argument tdm.*": _REVOCABLE,
    "argument cdp.*": Ignored("queues say how long a job is spared: preemption.minRun"),
    "argument task-topology.*": Ignored("write affinity in the tasks' templates"),
    "argument numa-aware.*": _ZONES,
    "argument network-topology-aware.*": _NEAR,
    "argument usage.*": _USED,
    "argument rescheduling.*": _MOVED,
    "argument deviceshare.*": _WHOLE,
    "argument extender.*": _EXTENDER,
    "argument *.enable*": Ignored("what a plugin does is not divided: leave the plugin out, or keep it"),
}


def use_of(setting: Setting) -> Use | None:
    """Return the use of a setting; None if the setting is unknown."""
    if setting.what != "argument":
        return SETTINGS.get(f"{setting.what} {setting.name}")
    plugin, _, name = setting.name.partition(".")
    exact = SETTINGS.get(f"argument {setting.name}")
    switch = SETTINGS["argument *.enable*"] if name.startswith("enable") else None
    return exact or switch or SETTINGS.get(f"argument {plugin}.*")


def notes(config_map: Object) -> Iterator[str]:
    """Yield one sentence for each setting that has no effect. If the configuration cannot be read, yield the reason."""
    if (text := text_of(config_map)) is None:
        return
    try:
        found = read_configuration(text)
    except VolcanoConfigurationError as error:
        yield f"{error}: it counts as absent"
        return
    for setting in settings(found):
        match use_of(setting):
            case Ignored(why):
                yield f"the {setting.what} {setting.name} has no effect: {why}"
            case None:
                yield f"the {setting.what} {setting.name} is not known here, and has no effect"
            case _:
                pass


def told(text: str) -> Iterator[str]:
    """Yield one text about the use of each setting. Users read these texts when they plan a migration."""
    try:
        found = read_configuration(text)
    except VolcanoConfigurationError as error:
        yield f"{error}: it counts as absent"
        return
    for setting in settings(found):
        match use_of(setting):
            case Becomes(field, how):
                yield f"the {setting.what} {setting.name} is carried out ({field})" + (f": {how}" if how else "")
            case Ignored(why):
                yield f"the {setting.what} {setting.name} has no effect: {why}"
            case Answered() | None:
                yield f"the {setting.what} {setting.name} is not known here, and has no effect"
