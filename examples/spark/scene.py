"""The scene that drove people to gang schedulers, with Spark itself: applications that are submitted at once.

Each is a driver that, once it runs, asks the API for two executors. Pod by pod the drivers take every CPU and wait for
executors that cannot start. As gangs, each starts when there is room for all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from pydoc_data import topics
from typing import Any

from needs import ExampleError, Missing, Packages, Program
from stage import Kubectl, up

HERE = Path(__file__).parent
SPARK = Packages(
    name="spark",
    requirements=("pyspark==4.3.0", "py4j==0.10.9.9"),
    size="about 500 MB",
    room_bytes=2_500_000_000,  # an archive, what is in it, a wheel of that, and what is in the wheel
    proof="pyspark",
    options=("--config-settings=--build-option=--compression=stored",),  # of that wheel: half the time goes without
)
JAVA = Program(
    name="java",
    ask="-version",
    version=r'version "(1[789]|[2-9]\d)',
    hint="install Java 17 or newer, for instance apt-get install openjdk-17-jre-headless",
)
IMAGE = "apache/spark:4.3.0"
CPUS = 6
_LOOK_S = 1.0  # each look is a kubectl, whose start is most of what it costs
# A machine with few cores starts many Java machines here: they compile less, and need no threads to collect garbage.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SCRATCH = "/var/data/spark"
_STEP = "org.apache.spark.deploy.k8s.features.VolcanoFeatureStep"

# What a user adds to spark-submit. NAME is the application's, HERE this folder.
MODES: Mapping[str, Mapping[str, str]] = {
    "pod-by-pod": {
        "spark.kubernetes.scheduler.name": "phalanx",
        "spark.kubernetes.driver.label.phalanx.dev/queue": "one-by-one",
        "spark.kubernetes.executor.label.phalanx.dev/queue": "one-by-one",
    },
    "phalanx": {
        "spark.kubernetes.scheduler.name": "phalanx",
        "spark.kubernetes.driver.label.phalanx.dev/job": "NAME",
        "spark.kubernetes.executor.label.phalanx.dev/job": "NAME",
        "spark.kubernetes.driver.annotation.phalanx.dev/min-available": "3",
        "spark.kubernetes.driver.annotation.phalanx.dev/min-resources": "cpu=3,memory=2688Mi",
    },
    "volcano": {
        "spark.kubernetes.scheduler.name": "volcano",
        "spark.kubernetes.driver.pod.featureSteps": _STEP,
        "spark.kubernetes.executor.pod.featureSteps": _STEP,
        "spark.kubernetes.scheduler.volcano.podGroupTemplateFile": "HERE/podgroup.yaml",
    },
}
MIXED = ("phalanx", "volcano")  # the ways of `mixed`, in turn
SETTINGS: Mapping[str, str] = {
    "spark.kubernetes.container.image": IMAGE,
    "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
    "spark.kubernetes.submission.waitAppCompletion": "false",
    "spark.executor.instances": "2",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.ui.enabled": "false",
    **{
        f"spark.kubernetes.{who}.{what}Timeout": "60000"  # ms: on few cores everybody is slow while all start
        for who in ("submission", "driver")
        for what in ("connection", "request")
    },
    # One mount point on this machine, not a new one for each application.
    "spark.kubernetes.driver.volumes.emptyDir.spark-local-dir-1.mount.path": _SCRATCH,
    "spark.kubernetes.executor.volumes.emptyDir.spark-local-dir-1.mount.path": _SCRATCH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """`counts`: what every application must find in it."""

    path: Path
    counts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applications:
    """Those of one way, as their pods show them: application -> phases of its driver, and of its executors."""

    drivers: Mapping[str, str]
    executors: Mapping[str, list[str]]

    def count(self, phase: str) -> int:
        return list(self.drivers.values()).count(phase)

    def text(self) -> str:
        every = [phase for phases in self.executors.values() for phase in phases]
        words = {"Pending": "wait", "Running": "run", "Succeeded": "done", "Failed": "failed"}

        def told(phases: list[str]) -> str:
            return ", ".join(f"{count} {words[one]}" for one in words if (count := phases.count(one))) or "none"

        return f"drivers: {told(list(self.drivers.values()))}; executors: {told(every)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`stuck_s`: for so long nothing may change before what does not finish is given up."""

    applications: int
    cpus: int
    stuck_s: float
    timeout_s: float

    def play(self, modes: list[str]) -> bool:
        """Whether all went as it should, on a machine that is prepared. Raises ExampleError."""
        with tempfile.TemporaryDirectory(prefix="phalanx-spark-") as place:
            folder = Path(place)
            text = _write_text(folder / "text.txt")
            words = ("--local-images", str(_write_images(folder)), "--local-memory", "16Gi")
            with up(folder / "cluster", str(self.cpus), [str(SPARK.folder / "bin")], *words):
                kubectl = Kubectl(folder / "cluster" / "kubeconfig")
                kubectl("create", "--filename", str(HERE / "cluster.yaml"))
                went = [self._trial(mode, kubectl, text) for mode in dict.fromkeys(modes)]
            return all(went)

    def _trial(self, mode: str, kubectl: Kubectl, text: Text) -> bool:
        began_s = time.monotonic()

        def say(words: str) -> None:
            print(f"{mode:>10} {time.monotonic() - began_s:6.1f} s  {words}", flush=True)

        say(f"{self.applications} spark-submit at once on {self.cpus} CPUs")
        self._submit(mode, kubectl, text)
        say("all are submitted")
        if mode == "pod-by-pod":
            kubectl("patch", "queues.phalanx.dev/one-by-one", "--type=merge", '--patch={"spec": {"state": "open"}}')
        last = self._watch(mode, kubectl, say)
        ended = [name for name, phase in last.drivers.items() if phase == "Succeeded"]
        done, right = len(ended), sum(_result(kubectl, name) == text.counts for name in ended)
        _delete(kubectl)
        say(f"{done} of {self.applications} finished, {right} with the right counts\n")
        return right == done == (0 if mode == "pod-by-pod" else self.applications)

    def _submit(self, mode: str, kubectl: Kubectl, text: Text) -> None:
        """All at once; returns when the last driver's pod is created. Raises ExampleError."""
        names = [f"{mode}-{number}" for number in range(1, self.applications + 1)]
        ways = MIXED if mode == "mixed" else (mode,)
        submitting = {name: _spark_submit(way, name, kubectl, text) for name, way in zip(names, cycle(ways))}
        try:
            for name, process in submitting.items():
                said, _ = process.communicate()
                if process.returncode:
                    raise ExampleError(f"spark-submit of {name} failed:\n{said}")
        finally:
            for process in submitting.values():
                process.kill()

    def _watch(self, mode: str, kubectl: Kubectl, say: Callable[[str], None]) -> Applications:
        """Until all are over, or, pod by pod, executors were asked for and nothing has changed for long. Raises
        ExampleError."""
        shown, news_s, began_s = "", time.monotonic(), time.monotonic()
        while True:
            found = _applications(kubectl)
            if found.text() != shown:
                shown, news_s = found.text(), time.monotonic()
                say(shown)
            if found.count("Succeeded") + found.count("Failed") == self.applications:
                return found
            if mode == "pod-by-pod" and found.executors and time.monotonic() - news_s > self.stuck_s:
                say(f"nothing has changed for {self.stuck_s:.0f} s, and nothing will")
                return found
            if time.monotonic() - began_s > self.timeout_s:
                raise ExampleError(f"too late: after {self.timeout_s:.0f} s {shown}")
            time.sleep(_LOOK_S)


def prepare(install_timeout_s: float) -> None:
    """Java, places to mount files at, and pyspark. Raises Missing."""
    JAVA.require()
    _require_mount_points()
    SPARK.install(install_timeout_s)


# --- Spark ------------------------------------------------------------------------------------------------------------


def _home() -> Path:
    """Where pyspark lies."""
    return next((SPARK.folder / "lib").glob("python3.*/site-packages/pyspark"))


def _spark_submit(way: str, name: str, kubectl: Kubectl, text: Text) -> subprocess.Popen[str]:
    said = {key: value.replace("NAME", name).replace("HERE", str(HERE)) for key, value in MODES[way].items()}
    settings = [f"--conf={key}={value}" for key, value in {**SETTINGS, **said}.items()]
    where = ["--master", f"k8s://{kubectl.server}", "--deploy-mode", "cluster", "--name", name]
    command = [str(_home() / "bin" / "spark-submit"), *where, *settings]
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig), "SPARK_HOME": str(_home())}
    return subprocess.Popen(
        [*command, f"local://{HERE / 'wordcount.py'}", str(text.path)],
        env={**environment, "SPARK_SUBMIT_OPTS": _JAVA},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _write_images(folder: Path) -> Path:
    """What stands in for Spark's image: the installation of pyspark, where the image has Spark."""
    python = str(SPARK.folder / "bin" / "python")
    image = {
        "entrypoint": [str(HERE / "entrypoint")],
        "env": {"SPARK_HOME": "/opt/spark", "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
        "workingDir": "/opt/spark",
        "paths": {"/opt/spark": str(_home())},
    }
    path = folder / "images.yaml"
    path.write_text(json.dumps({"images": {IMAGE: image}}))  # JSON is YAML
    return path


def _require_mount_points() -> None:
    """Where Spark's pods mount what they need: root can make these places. Raises Missing."""
    missing = [path for path in ("/opt/spark", _SCRATCH) if not Path(path).is_dir()]
    if missing and os.geteuid():
        raise Missing(
            f"this machine has no {' and no '.join(missing)}, where pods of Spark mount their files: make "
            f"{'them' if missing[1:] else 'it'} (empty is enough), or run this as root"
        )


# --- the work ---------------------------------------------------------------------------------------------------------


def _write_text(path: Path) -> Text:
    """Python's own help pages (PSF licence), which every installation has; and how often its words occur."""
    text = "\n".join(topics.topics[name] for name in sorted(topics.topics))
    path.write_text(text)
    counts = Counter(text.lower().split())
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    most_common = [list(entry) for entry in most]
    return Text(path=path, counts={"words": counts.total(), "distinct": len(counts), "most": most_common})


def _applications(kubectl: Kubectl) -> Applications:
    drivers: dict[str, str] = {}
    executors: dict[str, list[str]] = {}
    for pod in json.loads(kubectl("get", "pods", "--selector", "spark-role", "--output", "json"))["items"]:
        labels, phase = pod["metadata"]["labels"], pod["status"]["phase"]
        if labels["spark-role"] == "driver":
            drivers[labels["spark-app-name"]] = phase
        else:
            executors.setdefault(labels["spark-app-name"], []).append(phase)
    return Applications(drivers=drivers, executors=executors)


def _result(kubectl: Kubectl, name: str) -> Any:
    """What its driver printed last. None: nothing that can be read."""
    logs = kubectl("logs", "--selector", f"spark-role=driver,spark-app-name={name}", "--tail=-1")
    found = [line.removeprefix("RESULT ") for line in logs.splitlines() if line.startswith("RESULT ")]
    return json.loads(found[-1]) if found else None


def _delete(kubectl: Kubectl) -> None:
    """Every pod of Spark's; what drivers own goes with them."""
    kubectl("delete", "pods", "--selector", "spark-role", "--grace-period=1", "--ignore-not-found")
