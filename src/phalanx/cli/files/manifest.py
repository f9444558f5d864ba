"""Read Kubernetes objects from files, with the line number of each field, or make a Job from a command line.

A `batch/v1` Job needs three fields to be queued: the queue's label, `suspend: true` (so that no pod exists before all
pods have a node) and the scheduler's name in its template. `queued` adds the fields that are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from phalanx.cli.files.rendezvous import add_rendezvous
from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.quantity import QuantityError, amount, parse
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import QUEUE, SCHEDULER_NAME
from phalanx.model.pod import MAX_AMOUNT

Field: TypeAlias = tuple[str | int, ...]

NO_WORDS: Mapping[str, str] = {}
_LABEL_VALUE = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_PODS_MAX = 100_000  # Kubernetes' limit for Indexed Jobs: k8s.io/kubernetes/pkg/apis/batch/validation
_LEAST_BYTES = 1 << 20  # a smaller memory request without a unit is probably a mistake, and is refused
_DEPTH_MAX = 100  # the maximum number of nested levels in a file; a pod template has about fifteen
# ending of a script's file name -> the program that runs such scripts, for an error message
_PROGRAMS = {".py": "python ", ".sh": "sh "}
_SCRIPTS = (".py", ".sh", ".R", ".jl", ".pl")
_INTERPRETERS = r"(ba|da|z)?sh|python[\d.]*|torchrun|accelerate|deepspeed|mpirun|Rscript|julia|perl|uv"
_ENDINGS = (".yaml", ".yml", ".json")
_DNS_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
TASK = "PHALANX_ARRAY_TASK_ID"  # the environment variable with the number of the task, in the pods of an array
_OUTPUT = "PHALANX_OUTPUT"
# the file name is passed in a variable, so that the shell does not interpret it
_INTO_FILE = ("/bin/sh", "-c", f'exec >"${_OUTPUT}" 2>&1 && exec "$@"', "phalanx")
# The command of an interactive job starts after the first session has sent a line. So no output is lost, and the size
# of the terminal is already set.
_ONCE_ATTACHED = ("/bin/sh", "-c", 'read -r _ && exec "$@"', "phalanx")
_PATH_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]")
_QUOTED = re.compile(r'"([A-Za-z][\w.\[\]/-]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """An object of a file. `lines`: path of a field -> its line in the file, counted from 1; empty for a Job made from
    a command line."""

    file: str
    obj: Object
    lines: dict[Field, int] = field(default_factory=dict)

    def place(self, path: Field = ()) -> str:
        """Return the file and line of a field, such as `job.yaml:14`. If the field does not exist, return the line of
        the innermost existing field that would contain it."""
        if not self.lines:
            return self.file  # a Job that was made from a command line has no line numbers
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines.get(path, 1)}"


def read_files(files: Sequence[Path]) -> list[Document]:
    """Return all objects of the files, in order. For a folder, read all manifests in it, sorted by name. Raises
    PhalanxError with file and line."""
    return [document for file in files for each in _manifests(file) for document in _read(each)]


def _manifests(file: Path) -> list[Path]:
    if not file.is_dir():
        return [file]
    found = sorted(path for path in file.rglob("*") if path.suffix in _ENDINGS and path.is_file())
    if not found:
        raise PhalanxError(f"{file}: the folder has no manifests ({', '.join(_ENDINGS)}). Nothing was created.")
    return found


def queued(document: Document, queue: str | None, words: Mapping[str, str] = NO_WORDS, priority: str = "") -> Object:
    """Return the object that will be created. A Job gets the fields that queue it; any other object is unchanged.
    `queue`: replaces the queue of the Job; None keeps it. `words`: annotations for the Job; they replace annotations of
    the Job with the same keys. `priority`: the PriorityClass that the Job gets; "" keeps its PriorityClass.

    Raises PhalanxError if a field of the Job prevents Phalanx from queueing it."""
    obj = document.obj
    if not is_job(obj):
        return obj
    template = _mapping(document, ("spec", "template", "spec"))
    scheduler = template.setdefault("schedulerName", SCHEDULER_NAME)
    if scheduler != SCHEDULER_NAME:
        raise PhalanxError(
            f"{document.place(('spec', 'template', 'spec', 'schedulerName'))}: schedulerName is {scheduler!r}, so "
            f"Phalanx would not schedule its pods. Remove the line, or write {SCHEDULER_NAME}."
        )
    obj["spec"]["suspend"] = True
    if obj["metadata"].get("labels") is None:
        obj["metadata"]["labels"] = {}
    labels = _mapping(document, ("metadata", "labels"))
    if queue is not None or QUEUE not in labels:
        labels[QUEUE] = queue or "default"
    if priority:
        template["priorityClassName"] = priority
    if words:
        _say(document, words)
    return obj


def is_job(obj: Object) -> bool:
    return (obj["apiVersion"], obj["kind"]) == ("batch/v1", "Job")


def _say(document: Document, words: Mapping[str, str]) -> None:
    """Write the options `words` as annotations, because values of labels may not contain all characters. If the Job has
    a label with the same key, the label is removed, because it would take precedence."""
    meta = document.obj["metadata"]
    if meta.get("annotations") is None:
        meta["annotations"] = {}
    _mapping(document, ("metadata", "annotations")).update(words)
    for key in words:
        meta["labels"].pop(key, None)


# The API server adds this note without a field to the errors of a custom resource.
_UNCHECKED = "some validation rules were not checked because the object was invalid"


def refusal(document: Document, error: ApiRefusal) -> PhalanxError:
    """Return the error of the server as a PhalanxError with the file and the lines of the refused fields."""
    if error.reason == "AlreadyExists":
        return _taken(document, error)
    if error.reason == "NotFound" and error.details.get("kind") == "namespaces":
        name = error.details.get("name")
        return PhalanxError(
            f"{document.place(('metadata', 'namespace'))}: there is no namespace {name}. This object and the objects "
            "after it were not "
            f"created. `kubectl get namespaces` lists the namespaces; `kubectl create namespace {name}` creates it."
        )
    causes = error.details.get("causes") or []
    lines = [
        f"{document.place(_field(cause.get('field', '')))}: {cause.get('field')}: {cause.get('message')}"
        for cause in causes
        if cause.get("field") and _UNCHECKED not in str(cause.get("message"))
    ]
    if not lines:
        named = (_field(found) for found in _QUOTED.findall(error.message))
        where = next((path for path in named if path in document.lines), ())
        lines = [f"{document.place(where)}: {error.message}"]
    return PhalanxError(
        "\n".join([f"{len(lines)} error(s); this object and the objects after it were not created", *lines])
    )


def _taken(document: Document, error: ApiRefusal) -> PhalanxError:
    kind, name = str(document.obj.get("kind", "object")).lower(), document.obj["metadata"].get("name", "")
    space = document.obj["metadata"].get("namespace")
    there = f"kubectl delete {kind} {name}{f' -n {space}' if space else ''}"
    return PhalanxError(
        f"{document.place(('metadata', 'name'))}: {error.message}. The existing object was not changed, and this "
        "object and "
        "the objects after it were not created. Choose another name (for a command: --name), write "
        "metadata.generateName instead of name to get a new name each time, or delete the existing object first: "
        f"{there}"
    )


# --- from a command line -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRequest:
    """The request for a Job that runs one command. `command`: the arguments of the command; no shell interprets them.
    `directory`: the working directory; "" for that of the image. `environment`: (name, value) of each variable."""

    name: str
    command: tuple[str, ...]
    namespace: str = "default"
    queue: str = "default"
    pods: int = 1
    cpu: str = "1"
    memory: str = ""
    gpu: int = 0
    image: str = "host"
    directory: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    retries: int = 0
    keep_s: int | None = None  # the seconds from the end of the Job to its deletion; None: the Job is not deleted
    output: str = ""  # the file for the output of a pod; %r is the index of the pod, %a the task of an array
    chance: int = 0  # a random number that determines the port by which several pods connect to each other
    stdin: bool = False  # True if the command reads input from a session
    tty: bool = False  # True if the command runs at a terminal


def job(request: ManifestRequest) -> Object:
    """Return a Job with `pods` pods that run the same command and start together. If there are several pods, each pod
    has a number and a host name by which the other pods can find it. Raises PhalanxError if the command is missing, or
    if a name or quantity is invalid."""
    _check(request)
    spec: Object = {
        "suspend": True,
        "parallelism": request.pods,
        "completions": request.pods,
        "completionMode": "Indexed" if request.pods > 1 else "NonIndexed",
        "backoffLimit": request.retries,
        "template": {
            "spec": {
                "schedulerName": SCHEDULER_NAME,
                "restartPolicy": "Never",
                "containers": [_container(request)],
            }
        },
    }
    if request.keep_s is not None:
        spec["ttlSecondsAfterFinished"] = request.keep_s
    found: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": request.name, "namespace": request.namespace, "labels": {QUEUE: request.queue}},
        "spec": spec,
    }
    if request.pods > 1:
        add_rendezvous(found, request.chance, request.gpu)
    return found


def name_of(command: Sequence[str], suffix: str) -> str:
    """Return a name for a Job, such as `train-x7k2p`. It begins with the name of the program. If the program is an
    interpreter, it begins with the name of the script."""
    script = next((word for word in command if word.endswith(_SCRIPTS)), "") if _is_interpreter(command) else ""
    program = script or (command[0] if command else "")
    stem = re.sub(r"[^a-z0-9]+", "-", Path(program).stem.lower()).strip("-")
    return f"{stem[:40].strip('-') or 'job'}-{suffix}"


def _is_interpreter(command: Sequence[str]) -> bool:
    return bool(command) and re.fullmatch(_INTERPRETERS, Path(command[0]).name) is not None


def has_terminal(job: Object) -> bool:
    """Return True if the Job has one pod, and the first container of the pod reads from a terminal."""
    container = job["spec"]["template"]["spec"]["containers"][0]
    return bool(container.get("stdin") and container.get("tty")) and job["spec"].get("parallelism", 1) == 1


def waits_for_session(container: Object) -> bool:
    """Return True if `job` created the container for an interactive command, which starts after a line of input."""
    return tuple(container.get("command") or ())[: len(_ONCE_ATTACHED)] == _ONCE_ATTACHED


def environment(pairs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (name, value) of each `NAME=VALUE`. Raises PhalanxError for a text of another form."""
    for pair in pairs:
        if not re.match(r"^[A-Za-z_][A-Za-z0-9_.-]*=", pair):
            raise PhalanxError(f"--env {pair!r} is not NAME=VALUE. Write for example --env EPOCHS=10.")
    return tuple((name, value) for name, _, value in (pair.partition("=") for pair in pairs))


def literal(text: str) -> str:
    """Escape `text` for the command or an environment variable of a container, because Kubernetes replaces `$(NAME)`
    and `$$` in them."""
    return re.sub(r"\$(?=[$(])", "$$", text)


def _container(request: ManifestRequest) -> Object:
    asks = {"cpu": request.cpu, "memory": request.memory, "nvidia.com/gpu": str(request.gpu) if request.gpu else ""}
    requests = {name: amount for name, amount in asks.items() if amount}
    container: Object = {
        "name": "main",
        "image": request.image,
        "command": [literal(word) for word in request.command],
        # The limits equal the requests for memory and devices. There is no CPU limit, so a pod may use idle CPU.
        "resources": {"requests": requests, "limits": {n: a for n, a in requests.items() if n != "cpu"}},
    }
    if request.directory:
        container["workingDir"] = request.directory
    if request.environment:
        container["env"] = [{"name": name, "value": literal(value)} for name, value in request.environment]
    if request.output:
        file = literal(request.output).replace("%r", "$(RANK)" if request.pods > 1 else "0").replace("%a", f"$({TASK})")
        container["env"] = [*container.get("env", ()), {"name": _OUTPUT, "value": file}]
        container["command"] = [*_INTO_FILE, *container["command"]]
    if request.stdin:
        container |= {"stdin": True, "stdinOnce": not request.tty, "tty": request.tty}
        container["command"] = [*_ONCE_ATTACHED, *container["command"]]
    return container


def _check(request: ManifestRequest) -> None:
    if not request.command:
        raise PhalanxError("there is no command to run. Write it after two dashes: phalanx run -- python train.py")
    if not _DNS_LABEL.match(request.name):
        raise PhalanxError(
            f"{request.name!r} cannot be the name of a Job: use at most 63 of a-z, 0-9 and '-', beginning and ending "
            "with "
            "a letter or digit. Choose another --name."
        )
    if not 1 <= request.pods <= _PODS_MAX:
        raise PhalanxError(f"--pods {request.pods}: a job has at least one pod, and at most {_PODS_MAX:,}")
    if request.gpu < 0:
        raise PhalanxError(f"--gpu {request.gpu}: the number of GPUs cannot be negative")
    if not _LABEL_VALUE.match(request.queue):
        raise PhalanxError(
            f"{request.queue!r} cannot be the name of a queue: at most 63 letters, digits, '-', '_' and '.', beginning "
            "and ending with a letter or digit. `phalanx queues` lists the queues."
        )
    if request.memory.isdigit() and 0 < int(request.memory) < _LEAST_BYTES:
        raise PhalanxError(
            f"--memory {request.memory} is {request.memory} bytes, which is too little for any program: write the "
            "unit, "
            f"for example {request.memory}Mi or {request.memory}Gi."
        )
    for option, text in (("--cpu", request.cpu), ("--memory", request.memory)):
        try:
            if text and parse(text) < 0:
                raise QuantityError(f"{text!r} is negative")
            if text and amount(option.removeprefix("--"), text) > MAX_AMOUNT:
                raise QuantityError(f"{text!r} is more than any cluster has")
        except QuantityError as error:
            raise PhalanxError(f"{option} {error}") from error


# --- from files ----------------------------------------------------------------------------------------------------


def _read(file: Path) -> Iterator[Document]:
    name = "standard input" if str(file) == "/dev/stdin" else str(file)  # `cli.app` replaces a dash by /dev/stdin
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PhalanxError(f"cannot read {name}: {reason}. Nothing was created.") from error
    if file.suffix in _PROGRAMS or text.startswith("#!"):
        raise PhalanxError(
            f"{name} is a program and no manifest. To run it as a job, write it after two dashes: "
            f"phalanx submit -- {_PROGRAMS.get(file.suffix, '')}{name}. Nothing was created."
        )
    found = list(_documents(name, text))
    if not found:
        raise PhalanxError(f"{name}: the file has no objects. Nothing was created.")
    yield from found


def _documents(name: str, text: str) -> Iterator[Document]:
    loader = yaml.SafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None  # check_node has returned True
            lines: dict[Field, int] = {}
            _walk(name, node, (), lines)
            obj = loader.construct_document(node)
            if obj is not None:
                yield from _objects(Document(file=name, obj=obj, lines=lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise PhalanxError(f"{name}:{line}: this is not YAML: {error.problem}. Nothing was created.") from error
    except RecursionError:
        raise PhalanxError(f"{name}: too many levels are nested. Nothing was created.") from None
    except (yaml.YAMLError, ValueError, LookupError) as error:  # such as `2026-13-45`, or `!!bool x`
        raise PhalanxError(f"{name}:1: this is not YAML: {error}. Nothing was created.") from error


def _objects(document: Document) -> Iterator[Document]:
    """Yield the document itself or, if its object is a List, a document for each item."""
    obj = document.obj
    if not isinstance(obj, dict):
        raise PhalanxError(f"{document.place()}: an object is expected, not {obj!r}. Nothing was created.")
    for key in ("apiVersion", "kind"):
        if not isinstance(obj.get(key), str):
            raise PhalanxError(
                f"{document.place()}: {key} is missing. Nothing was created. Write for example "
                "apiVersion: batch/v1 and kind: Job."
            )
    if obj["kind"] == "List":
        items = obj.get("items") or []
        if not isinstance(items, list):
            raise PhalanxError(f"{document.place(('items',))}: items is not a list. Nothing was created.")
        for number, item in enumerate(items):
            prefix: Field = ("items", number)
            lines = {path[2:]: line for path, line in document.lines.items() if path[:2] == prefix}
            yield from _objects(Document(file=document.file, obj=item, lines=lines))
        return
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise PhalanxError(f"{document.place(('metadata',))}: metadata.name is missing. Nothing was created.")
    yield document


def _walk(name: str, node: yaml.Node, path: Field, lines: dict[Field, int]) -> None:
    """Record the line of each field below `node` in `lines`. `path`: the path of the node. Raises PhalanxError if a key
    occurs twice in a mapping, or if the file has too many nested levels."""
    lines.setdefault(path, node.start_mark.line + 1)
    if len(path) > _DEPTH_MAX:
        raise PhalanxError(
            f"{name}:{lines[path]}: an alias is inside of its own anchor, or more than {_DEPTH_MAX} levels are "
            "nested. Nothing was created."
        )
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _walk(name, item, (*path, number), lines)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            line = key.start_mark.line + 1
            if inner in lines:
                raise PhalanxError(
                    f"{name}:{line}: {_written(inner)} occurs twice (first in line {lines[inner]}). "
                    "Nothing was created. Remove one of them."
                )
            lines[inner] = line
            _walk(name, value, inner, lines)


def _mapping(document: Document, path: Field) -> Object:
    obj: Any = document.obj
    for depth, key in enumerate(path, 1):
        obj = obj.get(key) if isinstance(obj, dict) else None
        if not isinstance(obj, dict):
            where = path[:depth]
            raise PhalanxError(
                f"{document.place(where)}: {_written(where)} is missing or not a mapping, and a Job needs it. "
                "Nothing was created."
            )
    found: Object = obj
    return found


def _field(text: str) -> Field:
    """Return the path of a field that the server writes as `spec.containers[0].image`. A text in brackets that is not a
    number is a key of a mapping."""
    path: list[str | int] = []
    for name, number, key in _PATH_STEP.findall(text):
        path.append(int(number) if number else name or key)
    return tuple(path)


def _written(path: Field) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
