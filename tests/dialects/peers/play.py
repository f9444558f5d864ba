"""Play a recording of another scheduler with Phalanx's scheduler, and count the equal results.

A recording is a file of `recorded/` (its README describes the format). It has the steps of a user, and the decisions
and statuses of the other scheduler after each step. The steps are played on `tests.kube.stage.Stage`: the scheduler
with the dialect, in this process, with a clock that only the test advances. The player acts as the kubelet of the
simulated nodes. The stage has no admission, so the player leaves out the objects that the other scheduler refused.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from phalanx.client.informer import key_of
from phalanx.client.kind import JOBS, NODES, PODS, PRIORITY_CLASSES, Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS
from tests.kube.double import KINDS, Object, merge
from tests.kube.stage import Stage

# the recorder waited until no object had changed for 3 s; on the stage each turn delivers only some of the events
SETTLE_S = 4.0
TURN_S = 0.25
START_S = 1_800_000_000.0
_DROP = re.compile(
    r"(time|timestamp|uid|resourceversion|generation|message|at|since|clock|transitionid|duration|podip|hostip)$", re.I
)
_UNITS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "applicationId",
    "pod-group-name",
)
_DIALECTS = {"coscheduling": "scheduler-plugins"}  # folders whose name differs from the name of their dialect
ENDINGS = {"finish": "Succeeded", "fail": "Failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The observations after one step. `decisions`: job -> its pods by pool of nodes, and the number of pods that
    succeeded. `answers`: the status of each observed object, one line per field, without times, ids and free text."""

    decisions: Mapping[str, Object]
    answers: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The result of a comparison. `others`: the numbers of the steps with other decisions. `lines`: the number of
    recorded status lines. `same`: the number of these lines that Phalanx reports too. `missed`: the differences, as
    text."""

    others: tuple[int, ...]
    lines: int
    same: int
    missed: tuple[str, ...]


def read(path: Path) -> Object:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast
    found: Object = yaml.load(path.read_text(), Loader=loader)
    return found


async def play(recording: Object, peer: str) -> list[Picture]:
    """Return a picture after each step of the recording. `peer`: the folder of the recording."""
    player = Player(recording, peer)
    async with player.stage.scheduler():
        return [await player.step(at) for at in range(len(recording["steps"]))]


def compare(recording: Object, pictures: Sequence[Picture]) -> Score:
    """Count the steps and lines of the recording that the pictures have too. If the outcome depends on a race, there
    are two recordings, and the more similar one counts."""
    scores = [_score(recording[each], pictures) for each in ("recorded", "recorded again") if each in recording]
    return min(scores, key=lambda score: (len(score.others), score.lines - score.same))


def _score(recorded: Sequence[Object], pictures: Sequence[Picture]) -> Score:
    others, missed, lines, same = list[int](), list[str](), 0, 0
    for at, (was, now) in enumerate(zip(recorded, pictures, strict=True)):
        if was["decisions"] != now.decisions:
            others.append(at)
            missed.append(f"step {at}: {now.decisions}, recorded was {was['decisions']}")
        for about, said in was.get("answers", {}).items():
            missing = set(said) - now.answers.get(about, frozenset())
            lines, same = lines + len(said), same + len(said) - len(missing)
            if missing:
                missed.append(f"step {at}, {about}: without {sorted(missing)}")
    return Score(others=tuple(others), lines=lines, same=same, missed=tuple(missed))


class Player:
    """`peer`: the folder of the recording."""

    def __init__(self, recording: Object, peer: str) -> None:
        self._recording, self._ended = recording, dict[str, str]()
        self.stage = Stage(nodes=[], dialects=frozenset({_DIALECTS.get(peer, peer)}))
        self.stage.now_s = START_S
        self._kinds = {(kind.api_version, kind.name): kind for kind in KINDS}
        for node in recording.get("nodes") or ():
            count = node.get("count", 1)
            for number in range(count):
                self._put(NODES, node_of(node, node["name"] if count == 1 else f"{node['name']}-{number}"))
        if "config" in recording:
            meta = {"name": "yunikorn-configs", "namespace": "yunikorn"}
            self._put(CONFIGURATIONS, {"metadata": meta, "data": {"queues.yaml": recording["config"]}})

    async def step(self, at: int) -> Picture:
        step = self._recording["steps"][at]
        left_out = Counter(self._recording["recorded"][at].get("refused", ()))
        for obj in yaml.safe_load_all(step.get("apply", "")):
            name = f"{obj['kind']} {obj['metadata'].get('name')}" if obj else ""
            if obj and left_out[name]:
                left_out[name] -= 1
            elif obj:
                self._apply(obj)
        for verb, phase in ENDINGS.items():
            for unit in step.get(verb) or ():
                self._ended[unit if "/" in unit else f"default/{unit}"] = phase
        if patch := step.get("patch"):
            kind, key = self._find(patch["object"])
            if not left_out[patch["object"]]:
                self._put(kind, _merged(self.stage.api.objects[kind][key], patch["patch"]))
        for reference in step.get("delete") or ():
            self._delete(*self._find(reference))
        await self._pass(SETTLE_S + float(step.get("wait", 0)))
        return Picture(decisions=self._decisions(), answers=self._answers())

    async def _pass(self, seconds: float) -> None:
        for _ in range(int(seconds / TURN_S)):
            await self.stage.turn()
            self._kubelet()
            self.stage.now_s += TURN_S
            await asyncio.sleep(TURN_S)

    # --- what the user and the kubelet do -----------------------------------------------------------------------------

    def _apply(self, obj: Object) -> None:
        kind = self._kind(obj)
        if kind.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        found = self.stage.api.objects[kind].get(key_of(obj))
        if found is not None:
            obj = _merged(found, obj)
        elif kind is PODS:
            obj["status"] = {"phase": "Pending"}
            self._class_of(obj["spec"])
        elif kind is JOBS:
            obj["status"] = {}
            self._class_of(obj["spec"]["template"]["spec"])
        self._put(kind, obj)

    def _class_of(self, spec: Object) -> None:
        """Write the value of the pod's PriorityClass into the pod, as Kubernetes' admission does."""
        if found := self.stage.api.objects[PRIORITY_CLASSES].get(spec.get("priorityClassName", "")):
            spec["priority"] = found["value"]

    def _put(self, kind: Kind, obj: Object) -> None:
        obj["metadata"].setdefault("creationTimestamp", write_moment(self.stage.now_s))
        self.stage.api.put(kind, obj)

    def _delete(self, kind: Kind, key: str) -> None:
        found = self.stage.api.objects[kind].get(key)
        if found is None:
            return
        if kind is PODS and found["spec"].get("nodeName"):
            self._put(PODS, _merged(found, {"metadata": {"deletionTimestamp": write_moment(self.stage.now_s)}}))
        else:
            self.stage.api.drop(kind, key)

    def _kubelet(self) -> None:
        for pod in self.stage.api.pods():
            phase = (pod.get("status") or {}).get("phase")
            if not pod["spec"].get("nodeName") or phase in ENDINGS.values() or "deletionTimestamp" in pod["metadata"]:
                continue
            space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            ended = self._ended.get(f"{space}/{unit_of(pod)}") or self._ended.get(f"{space}/{name}")
            if (wanted := ended or "Running") != phase:
                ready = {"type": "Ready", "status": "True" if wanted == "Running" else "False"}
                scheduled = {"type": "PodScheduled", "status": "True"}
                self._put(PODS, {**pod, "status": {"phase": wanted, "conditions": [scheduled, ready]}})

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _decisions(self) -> dict[str, Object]:
        objects = self.stage.api.objects
        pools = {name: node["metadata"]["labels"].get("pool", "?") for name, node in objects[NODES].items()}
        bound, succeeded = defaultdict[str, Counter[str]](Counter), Counter[str]()
        for pod in self.stage.api.pods():
            unit, phase = f"{pod['metadata']['namespace']}/{unit_of(pod)}", (pod.get("status") or {}).get("phase")
            if "deletionTimestamp" in pod["metadata"]:
                continue
            if phase == "Succeeded":
                succeeded[unit] += 1
            elif phase != "Failed" and pod["spec"].get("nodeName"):
                bound[unit][pools[pod["spec"]["nodeName"]]] += 1
        return {
            unit: {"bound": dict(sorted(bound[unit].items())), "succeeded": succeeded[unit]}
            for unit in sorted({*bound, *succeeded})
        }

    def _answers(self) -> dict[str, frozenset[str]]:
        found = {}
        for observed in self._recording.get("observe") or ():
            version, name = observed.rsplit(" ", 1)
            kind = self._kinds.get((version, name))
            for obj in self.stage.api.objects.get(kind, {}).values() if kind else ():
                meta = obj["metadata"]
                owners = [f"of {one['kind']} {one['name']}" for one in meta.get("ownerReferences") or ()]
                about = f"{name} {meta.get('namespace', '')}/{owners[0] if owners else meta['name']}"
                found[about] = frozenset(lines(obj.get("status") or {}))
        return found

    # --- names --------------------------------------------------------------------------------------------------------

    def _kind(self, obj: Object) -> Kind:
        if obj["kind"] == CONFIGURATIONS.name and obj["metadata"].get("namespace") == "yunikorn":
            return CONFIGURATIONS
        return self._kinds[obj["apiVersion"], obj["kind"]]

    def _find(self, reference: str) -> tuple[Kind, str]:
        """Return the object that `Kind namespace/name` or `Kind name` refers to."""
        name, _, key = reference.partition(" ")
        kind = next(kind for (_, each), kind in self._kinds.items() if each == name and self._keys(kind, key))
        return kind, self._keys(kind, key)[0]

    def _keys(self, kind: Kind, key: str) -> list[str]:
        return [each for each in (key, f"default/{key}") if each in self.stage.api.objects[kind]]


def lines(status: Any, path: str = "") -> Iterator[str]:
    """Yield one line for each field of a status with a value other than empty, 0 or False."""
    if isinstance(status, dict):
        for key, value in status.items():
            if not _DROP.search(key):
                yield from lines(value, f"{path}.{key}" if path else key)
    elif isinstance(status, list):
        for at, value in enumerate(status):
            names = (value[key] for key in ("type", "name", "resource") if isinstance(value, dict) and key in value)
            yield from lines(value, f"{path}[{next(names, at)}]")
    elif status not in (None, "", 0, False):
        yield f"{path}={status}"


def node_of(of: Object, name: str) -> Object:
    amounts = {key: str(of.get(key, default)) for key, default in (("cpu", 8), ("memory", "32Gi"), ("pods", 110))}
    amounts |= {key: str(amount) for key, amount in (of.get("resources") or {}).items()}
    labels = {"kubernetes.io/hostname": name, "pool": of.get("pool", of["name"]), **(of.get("labels") or {})}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {"taints": of.get("taints") or []}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def _merged(obj: Object, patch: Object) -> Object:
    merge(obj, {key: value for key, value in patch.items() if key != "status"})
    return obj


def unit_of(pod: Object) -> str:
    """Return the job that a pod belongs to."""
    meta = pod["metadata"]
    words = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    named = next((words[key] for key in _UNITS if words.get(key)), "")
    owners = [one["name"] for one in meta.get("ownerReferences") or () if one.get("controller")]
    return str(named or (owners[0] if owners else words.get("scheduling.k8s.io/group-name") or meta["name"]))
