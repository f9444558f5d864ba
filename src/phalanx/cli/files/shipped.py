"""Find the files that come with Phalanx: the examples, and the manifests for clusters, which can also be written as a
Helm chart. A wheel has these files inside the package; a checkout has them in the directory that contains `src`.

The chart is made from the manifests in `deploy`. `deploy/chart` has the parts that only a chart needs: its description,
its values, and templates that include all other objects. Deployments become templates, because values of the chart
change them. All other objects become plain files of the chart, because Helm would interpret the braces in CEL
expressions of a template."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from phalanx.errors import PhalanxError

_PACKAGE = Path(__file__).parents[2]
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")

_NAME, _NAMESPACE = "phalanx", "phalanx-system"
# name of a Deployment -> the section of values.yaml with its values
_VALUES = {"phalanx": "scheduler", "phalanx-webhook": "webhook"}
_DIALECT = re.compile(r"value: (--dialect=[^\s}]+)")
# a list item that is a template expression, which Helm replaces by whole items of a list
_ITEM = re.compile(r"^( *)- '(\{\{-.*\}\})'$", re.MULTILINE)
_EXPRESSION = re.compile(r"'(\{\{.*\}\})'$", re.MULTILINE)
# Values of the chart that become a file for the scheduler. An entry has the name of the value, the name of the file and
# of the option, and the folder.
_FILES = (
    ("policy", "policy", "/etc/phalanx"),
    ("nodeGroups", "node-groups", "/etc/phalanx-node-groups"),
)
_NEVER_WRAPPED = 10_000  # characters
_KEEP = {"helm.sh/resource-policy": "keep"}  # so that `helm uninstall` keeps the queues and their jobs


def shipped(folder: str) -> Path:
    """Return the path of the shipped folder `examples` or `deploy`. Raises PhalanxError if it was not installed."""
    for place in (_PACKAGE / "shipped" / folder, _PACKAGE.parents[1] / folder):
        if place.is_dir():
            return place
    raise PhalanxError(f"this installation has no {folder}: install Phalanx from its wheel, or use a checkout.")


def copy_out(source: Path, directory: Path) -> Path:
    """Copy a shipped file or folder into a directory, with the same name, and return the new path. Raises PhalanxError
    if the path already exists."""
    there = directory / source.name
    if there.exists():
        raise PhalanxError(f"{there} exists already. Nothing was written: name another directory.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, there, ignore=_IGNORED)
        else:
            shutil.copy(source, there)
    except OSError as error:
        raise PhalanxError(f"{there} cannot be written: {error.strerror}.") from error
    return there


def write_chart(deploy: Path, directory: Path) -> Path:
    """Write the chart into a new folder `phalanx` of the directory, and return the folder. `deploy`: the folder of the
    manifests. Raises PhalanxError if the folder exists or cannot be written."""
    chart = directory / _NAME
    if chart.exists():
        raise PhalanxError(f"{chart} exists already. Nothing was written: name another directory.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(deploy / "chart", chart)
        for file, text in _generated(deploy).items():
            (chart / file).parent.mkdir(parents=True, exist_ok=True)
            (chart / file).write_text(text)
    except OSError as error:
        raise PhalanxError(f"{chart} cannot be written: {error.strerror}.") from error
    return chart


def _generated(deploy: Path) -> dict[str, str]:
    """Return the generated files of the chart: path in the chart -> text."""
    labels = _kustomization(deploy / "base")["labels"][0]["pairs"]
    components = sorted(path.parent for path in deploy.glob("components/*/kustomization.yaml") if _fits(path.parent))
    dialects = {path.name: said[1] for path in components if (said := _DIALECT.search(_text(path)))}
    found = {
        "objects/prometheus/alerts.yaml": (deploy / "prometheus" / "alerts.yaml").read_text(),
        "objects/prometheus/service-monitor.yaml": (deploy / "prometheus" / "service-monitor.yaml").read_text(),
    }
    parts = [(deploy / "base", "")]
    parts += [(path, f'eq .Values.admission "{path.name}"') for path in sorted(deploy.glob("overlays/*"))]
    parts += [(path, f'has "{path.name}" .Values.components') for path in components]
    for folder, condition in parts:
        others = list[Any]()
        for each in _objects(folder, labels):
            if each["kind"] == "Deployment":
                found[f"templates/{each['metadata']['name']}.yaml"] = _template(each, condition, dialects)
            else:
                others.append(each)
        found[f"objects/{folder.relative_to(deploy)}.yaml"] = _dumped(others)
    return found


def _fits(component: Path) -> bool:
    """Return True if the chart can contain the component. This is so if the component only adds objects, and
    `--dialect` options for the scheduler."""
    patches = _kustomization(component).get("patches", ())
    return bool(_resources(component)) and len(patches) == len(_DIALECT.findall(_text(component)))


def _text(folder: Path) -> str:
    return (folder / "kustomization.yaml").read_text()


def _kustomization(folder: Path) -> Any:
    return yaml.load(_text(folder), Loader=yaml.CSafeLoader)


def _resources(folder: Path) -> list[str]:
    return [name for name in _kustomization(folder).get("resources", ()) if name.endswith(".yaml")]


def _objects(folder: Path, labels: Mapping[str, str]) -> Iterable[Any]:
    """Yield the objects in the files of a kustomization, with the labels that kustomize adds. The namespace
    phalanx-system is left out, because Helm creates it."""
    for name in _resources(folder):
        for each in yaml.load_all((folder / name).read_text(), Loader=yaml.CSafeLoader):
            if each is None or (each["kind"] == "Namespace" and each["metadata"]["name"] == _NAMESPACE):
                continue
            metadata = each["metadata"]
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
            if each["kind"] == "CustomResourceDefinition":
                metadata["annotations"] = {**metadata.get("annotations", {}), **_KEEP}
            yield each


def _dumped(objects: Iterable[object]) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False, width=120, allow_unicode=True)


def _template(deployment: Any, condition: str, dialects: Mapping[str, str]) -> str:
    """Return the Deployment as a template. `condition`: the template condition under which it is installed; "" if it is
    always installed. `dialects`: component -> the argument of the scheduler that enables it."""
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
    container["imagePullPolicy"] = "{{ .Values.image.pullPolicy }}"
    pod["imagePullSecrets"] = _block("image.pullSecrets", 8)
    if (values := _VALUES.get(deployment["metadata"]["name"])) is not None:
        deployment["spec"]["replicas"] = f"{{{{ .Values.{values}.replicas }}}}"
        container["args"] += [_more(f"{values}.args")]
        container["env"] += [_more(f"{values}.env")]
        container["resources"] = _block(f"{values}.resources", 10)
        pod["nodeSelector"] = _block(f"{values}.nodeSelector", 8)
        pod["tolerations"] = _block(f"{values}.tolerations", 8)
    if values == "scheduler":
        served = [_argument(f'has "{name}" .Values.components', said) for name, said in dialects.items()]
        files = [_argument(f".Values.{value}", f"--{name}={folder}/{name}.yaml") for value, name, folder in _FILES]
        container["args"][-1:-1] = [*served, *files]
        container["volumeMounts"] = [_mount(value, name, folder) for value, name, folder in _FILES]
        pod["volumes"] = [_volume(value, name) for value, name, _ in _FILES]
        # The scheduler reads its files only at its start. The checksum of the files changes with them, so that
        # Kubernetes restarts the scheduler.
        restart = {f"checksum/{name}": f"{{{{ toYaml .Values.{value} | sha256sum }}}}" for value, name, _ in _FILES}
        deployment["spec"]["template"]["metadata"]["annotations"] = restart
    text = yaml.safe_dump(deployment, sort_keys=False, width=_NEVER_WRAPPED, allow_unicode=True)
    text = _EXPRESSION.sub(r"\1", _ITEM.sub(r"\1\2", text))
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def _block(value: str, indent: int) -> str:
    return f"{{{{- toYaml .Values.{value} | nindent {indent} }}}}"


def _more(value: str) -> str:
    """Return the template expression that appends the items of a chart value to a list of the container."""
    return f"{{{{- with .Values.{value} }}}}{{{{ toYaml . | nindent 8 }}}}{{{{ end }}}}"


def _argument(condition: str, argument: str) -> str:
    return f'{{{{- if {condition} }}}}{{{{ "- {argument}" | nindent 8 }}}}{{{{ end }}}}'


def _mount(value: str, name: str, folder: str) -> str:
    item = f'dict "name" "{name}" "mountPath" "{folder}"'
    return f"{{{{- if .Values.{value} }}}}{{{{ toYaml (list ({item})) | nindent 8 }}}}{{{{ end }}}}"


def _volume(value: str, name: str) -> str:
    source = f'dict "name" "{name}" "configMap" (dict "name" "phalanx-{name}")'
    return f"{{{{- if .Values.{value} }}}}{{{{ toYaml (list ({source})) | nindent 6 }}}}{{{{ end }}}}"
