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

_ALWAYS: Final = "Phalanx always does this"
_WITHIN: Final = Becomes(
    "QueuePreemption.within",
    "jobs preempt jobs of lower priority in the same Queue; without this action no job preempts in its Queue",
)
_RECLAIM: Final = Becomes(
    "QueuePreemption.reclaim", "Queues reclaim their share from other Queues; without this action no Queue does"
)
_SCORE: Final = Ignored(
    "the whole cluster has one way to score nodes: set `score: pack` (the default) or `score: "
    "spread` in the file of `--policy`"
)
_NEAR: Final = Ignored("Phalanx always places a gang in as few HyperNodes as possible, without weights")
_REVOCABLE: Final = Ignored("use a reservation of Phalanx, which reserves nodes for a period (docs/guide/queues.md)")
_TAKEN: Final = Ignored("a job is not enqueued before it can start, so there is no amount to limit")
_USED: Final = Ignored("only the requests of pods count, not their usage")
_MOVED: Final = Ignored("Phalanx does not move running pods for these actions and plugins")
_WHOLE: Final = Ignored(
    "pods request whole devices, or a part of one by phalanx.dev/gpu-fraction (docs/guide/kubernetes.md)"
)
_ZONES: Final = Ignored(
    "Phalanx chooses the zone with the least free capacity that is enough for the pod, without weights"
)
_EXTENDER: Final = Ignored("Phalanx calls no extender")

SETTINGS: Final[Mapping[str, Use]] = {
    "action enqueue": Becomes(
        "the cycle", f"{_ALWAYS}: the pods of a job that does not fit exist, wait, and hold no capacity"
    ),
    "action allocate": Becomes("the cycle", _ALWAYS),
    "action backfill": Becomes(
        "the cycle",
        f"{_ALWAYS}; in addition, EASY backfilling reserves capacity for the start of the first waiting job",
    ),
    "action preempt": _WITHIN,
    "action gangpreempt": _WITHIN,
    "action reclaim": _RECLAIM,
    "action gangreclaim": _RECLAIM,
    "action shuffle": _MOVED,
    "plugin priority": Becomes(
        "Queue.order", "jobs of a Queue and pods of a job are ordered by priority; without this plugin only by age"
    ),
    "plugin gang": Becomes("Role.minimum", _ALWAYS),
    "plugin conformance": Becomes(
        "the cycle", f"{_ALWAYS}: pods in kube-system and pods with a system-* PriorityClass are never preempted"
    ),
    "plugin drf": Becomes(
        "Queue.order",
        "Queues are ordered by their share (`tiered`); the jobs of one Queue are ordered by priority and age",
    ),
    "plugin proportion": Becomes(
        "Queue.weight",
        "Queues share the cluster by weight, and `reclaim` takes back capacity up to this share; "
        "`deserved` is not read",
    ),
    "plugin capacity": Becomes(
        "Quota.guaranteed", "`deserved` is guaranteed, `capability` is the limit, and `guarantee` is not lent"
    ),
    "plugin predicates": Becomes("the cycle", "all of kube-scheduler's filters always apply"),
    "plugin nodeorder": _SCORE,
    "plugin binpack": Becomes("Policy.score", "`score: pack`, the default"),
    "plugin overcommit": _TAKEN,
    "plugin sla": Ignored(
        "backfill reserves capacity for the start of the first waiting job, so that a large job does not starve"
    ),
    "plugin tdm": _REVOCABLE,
    "plugin cdp": Ignored(
        "use the queue's setting preemption.minRun, the time after its start during which a job is "
        "not preempted (docs/guide/queues.md)"
    ),
    "plugin task-topology": Ignored("use affinity in the pod templates of the tasks"),
    "plugin numa-aware": Becomes(
        "Shape.aligned", "always: topologyPolicy applies to pods of any QoS class, and also without Numatopologies"
    ),
    "plugin nodegroup": Becomes(
        "Quota.flavor", "the required node groups in a Queue's affinity; a label of nodes names their group"
    ),
    "plugin network-topology-aware": Becomes("Topology", "always: the tiers of HyperNodes are topology levels"),
    "plugin usage": _USED,
    "plugin rescheduling": _MOVED,
    "plugin pdb": Becomes("the cycle", f"{_ALWAYS}: PodDisruptionBudgets are respected"),
    "plugin resourcequota": Becomes("the cycle", f"{_ALWAYS}: a gang waits if a ResourceQuota would refuse its pods"),
    "plugin deviceshare": _WHOLE,
    "plugin resource-strategy-fit": _SCORE,
    "plugin extender": _EXTENDER,
    "argument capacity.enableHierarchy": Becomes(
        "Queue.parent", "always: `spec.parent` forms a tree of Queues, and a Queue with child Queues may run jobs, too"
    ),
    "argument capacity.ancestorReclaimLevel": Ignored(
        "Phalanx first preempts jobs in the Queue with the highest share"
    ),
    "argument capacity.*": Ignored(
        "Phalanx has no quota for resource claims: devices are counted as resources of nodes"
    ),
    "argument drf.enableHierarchy": Ignored(
        "use spec.parent of Queues; the annotation volcano.sh/hierarchy is not read"
    ),
    "argument nodegroup.enableHierarchy": Becomes(
        "Quota.flavor", "always: a Queue without node groups uses those of the nearest Queue above it that has some"
    ),
    "argument nodegroup.strict": Ignored("pods of Queues without an affinity may run on nodes without the label"),
    "argument nodegroup.enablePreferredOrder": Ignored("the required groups are tried in the order of their list"),
    "argument overcommit.overcommit-factor": _TAKEN,
    "argument sla.*": Ignored("backfill reserves capacity for the start of the first waiting job"),
    "argument nodeorder.*": _SCORE,
    "argument binpack.*": _SCORE,
    "argument resource-strategy-fit.*": _SCORE,
    "argument predicates.*": Ignored("kube-scheduler's filters always apply"),
    "argument tdm.*": _REVOCABLE,
    "argument cdp.*": Ignored(
        "use the queue's setting preemption.minRun, the time after its start during which a job is not preempted"
    ),
    "argument task-topology.*": Ignored("use affinity in the pod templates of the tasks"),
    "argument numa-aware.*": _ZONES,
    "argument network-topology-aware.*": _NEAR,
    "argument usage.*": _USED,
    "argument rescheduling.*": _MOVED,
    "argument deviceshare.*": _WHOLE,
    "argument extender.*": _EXTENDER,
    "argument *.enable*": Ignored("parts of a plugin cannot be switched off: remove the plugin, or keep all of it"),
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
        yield f"{error}: the configuration is ignored"
        return
    for setting in settings(found):
        match use_of(setting):
            case Ignored(why):
                yield f"the {setting.what} {setting.name} has no effect: {why}"
            case None:
                yield f"the {setting.what} {setting.name} is unknown to Phalanx, and has no effect"
            case _:
                pass


def told(text: str) -> Iterator[str]:
    """Yield one sentence about the use of each setting in the configuration with this text. Users read these sentences
    when they plan a migration."""
    try:
        found = read_configuration(text)
    except VolcanoConfigurationError as error:
        yield f"{error}: the configuration is ignored"
        return
    for setting in settings(found):
        match use_of(setting):
            case Becomes(field, how):
                yield f"the {setting.what} {setting.name} is used ({field})" + (f": {how}" if how else "")
            case Ignored(why):
                yield f"the {setting.what} {setting.name} has no effect: {why}"
            case Answered() | None:
                yield f"the {setting.what} {setting.name} is unknown to Phalanx, and has no effect"
