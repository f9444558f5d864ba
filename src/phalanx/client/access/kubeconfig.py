"""Read kubeconfig files: merge several files, choose one context, and return its cluster and user.

The rules are those of kubectl (k8s.io/client-go/tools/clientcmd). The first file that sets the current context decides
it. A cluster, user or context is taken from the first file that has an entry with its name. Paths are relative to the
folder of their file. If an entry has both a field `…-data` and a field with a path, the field `…-data` is used. An
unsupported setting is an error. If such a setting were ignored, the scheduler might use other credentials than the file
intends."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import PhalanxError

_PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_DEEPEST = 100
_EXTENSION = "client.authentication.k8s.io/exec"  # a cluster's extension with settings for credential plug-ins


class KubeconfigError(PhalanxError):
    """The error for a kubeconfig that cannot be used. The text of the error names the file or the entry."""


class _Untold(msgspec.Struct, frozen=True, kw_only=True):
    """The base of classes with secret fields. The method `__repr__` leaves out all fields, so that no log or traceback
    shows a secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Pem(_Untold, frozen=True, kw_only=True):
    """Certificates or a key. The PEM text is either in the kubeconfig itself (`data`), or in a file (`path`), which may
    be replaced at any time."""

    data: bytes = b""
    path: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data) or self.path is not None

    def read(self) -> bytes:
        """Return the PEM text; a file is read again each time. Raises OSError."""
        return self.data if self.path is None else self.path.read_bytes()


class KubeconfigCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster of a kubeconfig. `verified`: True if TLS verifies the server's certificate, False if it does not.
    `server_name`: the name in the server's certificate, if it differs from the URL's host. `proxy`: the proxy's URL;
    empty if it is not set. `plugin_words`: the cluster's settings for credential plug-ins."""

    server: str
    authority: Pem = Pem()
    verified: bool = True
    server_name: str = ""
    proxy: str = ""
    plugin_words: Any = None


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that prints credentials (KEP-541). `mode`: whether the program may ask the user for input: Never,
    IfAvailable or Always. `hint`: a text that describes how to install the program. `wants_cluster`: True if the
    program needs the cluster's settings (provideClusterInfo)."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    version: str
    mode: str
    hint: str = ""
    wants_cluster: bool = False


class KubeconfigUser(_Untold, frozen=True, kw_only=True):
    """A user of a kubeconfig. `acts_as`: the headers for impersonation, as (name, value)."""

    token: str = ""
    token_file: Path | None = None
    certificate: Pem = Pem()
    key: Pem = Pem()
    name: str = ""
    password: str = ""
    plugin: Plugin | None = None
    acts_as: tuple[tuple[str, str], ...] = ()


def read_kubeconfig(paths: Iterable[Path], context: str | None) -> tuple[KubeconfigCluster, KubeconfigUser]:
    """Return the cluster and the user of `context`, or of the current context if it is None. Raises KubeconfigError,
    OSError."""
    return _merged(paths).chosen(context)


def context_namespace(paths: Iterable[Path]) -> str:
    """Return the namespace of the current context; `default` if it names none. Raises KubeconfigError, OSError."""
    return _merged(paths).namespace()


def current_context(paths: Iterable[Path]) -> tuple[KubeconfigCluster, KubeconfigUser, str]:
    """Return the cluster, the user and the namespace of the current context; each file is read once. Raises
    KubeconfigError, OSError."""
    merged = _merged(paths)
    return *merged.chosen(None), merged.namespace()


def read_embedded(text: str, named: str) -> tuple[KubeconfigCluster, KubeconfigUser]:
    """Return the cluster and the user of a kubeconfig that an API object contains, such as a Secret. `named`: the name
    of the object for messages. Raises KubeconfigError if the kubeconfig names a file or a program: this process would
    read the file or run the program, although any user who may write the object chose it."""
    merged, where = _Merged(), Path(named)
    merged.add(where, _parsed(text, where))
    cluster, user = merged.chosen(None)
    files = [pem.path for pem in (cluster.authority, user.certificate, user.key)]
    if user.plugin is not None or user.token_file is not None or any(files):
        raise KubeconfigError(
            f"{named} names a file or a program, which only a kubeconfig in a file may: write certificates, keys and "
            "the token into it (`kubectl config view --raw --flatten --minify`)"
        )
    return cluster, user


def _merged(paths: Iterable[Path]) -> _Merged:
    merged = _Merged()
    for path in paths:
        merged.add(path)
    return merged


class _Merged:
    """The merged content of several kubeconfig files."""

    def __init__(self) -> None:
        self.current = ""
        self.entries: dict[str, dict[str, tuple[dict[str, object], Path]]] = {
            "clusters": {},
            "users": {},
            "contexts": {},
        }
        self.files: list[str] = []

    def add(self, path: Path, found: object = None) -> None:
        """Add the file `path`. `found`: the decoded content of the file; None: this method reads the file."""
        self.files.append(str(path))
        found = _content(path) if found is None else found
        if not isinstance(found, dict):
            raise KubeconfigError(f"{path} is not a kubeconfig")
        current = found.get("current-context")
        self.current = self.current or (current if isinstance(current, str) else "")
        for kind, known in self.entries.items():
            listed = found.get(kind) or []
            if not isinstance(listed, list):
                raise KubeconfigError(f"{path} is not a kubeconfig: {kind} is not a list")
            for entry in listed:
                body = entry.get(kind[:-1]) if isinstance(entry, dict) else None
                if not isinstance(body, dict | None) or not isinstance(entry, dict) or "name" not in entry:
                    raise KubeconfigError(f"{path} is not a kubeconfig: an entry of {kind} has no name and {kind[:-1]}")
                known.setdefault(str(entry["name"]), (body or {}, path.parent))

    def chosen(self, context: str | None) -> tuple[KubeconfigCluster, KubeconfigUser]:
        name = context or self.current
        if not name:
            raise KubeconfigError(f"{':'.join(self.files)} has no current-context: add --context NAME")
        said, _ = self.entry("contexts", name)
        where, folder = self.entry("clusters", str(said.get("cluster") or ""), f"context {name}")
        who: tuple[dict[str, object], Path] = ({}, folder)
        if said.get("user"):
            who = self.entry("users", str(said["user"]), f"context {name}")
        try:
            return _cluster(where, folder), _user(*who)
        except (ValueError, binascii.Error, TypeError, AttributeError, KeyError) as error:
            raise KubeconfigError(f"{':'.join(self.files)}, context {name}: {_short(error)}") from error

    def namespace(self) -> str:
        said, _ = self.entry("contexts", self.current)
        return str(said.get("namespace") or "default")

    def entry(self, kind: str, name: str, of: str = "") -> tuple[dict[str, Any], Path]:
        if name not in self.entries[kind]:
            known = ", ".join(sorted(self.entries[kind])) or "none"
            words = f"{of} names the {kind[:-1]} {name!r}, but" if of else f"there is no {kind[:-1]} {name!r}:"
            raise KubeconfigError(f"{words} {':'.join(self.files)} has {known}")
        return self.entries[kind][name]


def _content(path: Path) -> object:
    """Return the content of a file. Raises KubeconfigError, OSError."""
    try:
        return _parsed(path.read_text(), path)
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{path} is not a kubeconfig ({_short(error)})") from error


def _parsed(text: str, path: Path) -> object:
    """Return the content of a YAML or JSON text. The kubeconfigs of `phalanx up` are JSON. PyYAML is imported only when
    it is needed, because the import takes as long as Python's own start. Raises KubeconfigError."""
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(text)
    import yaml

    # PyYAML's C loader is 20 times as fast as its Python loader, but not every build of PyYAML has it.
    loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    try:
        for event in yaml.parse(text, loader):  # the C loader overflows its stack on very deep nesting
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise KubeconfigError(f"{path} is not a kubeconfig: its lists are nested more than {_DEEPEST} levels")
        return yaml.load(text, loader)  # noqa: S506  # both are safe
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{path} is not a kubeconfig ({_short(error)})") from error


def _cluster(said: Mapping[str, Any], folder: Path) -> KubeconfigCluster:
    server = str(said.get("server") or "http://localhost:8080")
    if not server.startswith(("https://", "http://")):
        server = f"https://{server}"
    words = [one.get("extension") for one in said.get("extensions") or () if one.get("name") == _EXTENSION]
    return KubeconfigCluster(
        server=server,
        authority=_pem(said, "certificate-authority", folder),
        verified=not said.get("insecure-skip-tls-verify"),
        server_name=str(said.get("tls-server-name") or ""),
        proxy=str(said.get("proxy-url") or ""),
        plugin_words=words[0] if words else None,
    )


def _user(said: Mapping[str, Any], folder: Path) -> KubeconfigUser:
    if said.get("auth-provider"):
        raise ValueError(
            f"the auth-provider {said['auth-provider'].get('name')!r} is not supported (nor by kubectl since 1.26): "
            "have your provider's tool write an exec plug-in into the kubeconfig"
        )
    plugin = said.get("exec")
    token_file = said.get("tokenFile")
    certificate, key = (_pem(said, f"client-{part}", folder) for part in ("certificate", "key"))
    if bool(certificate) != bool(key):
        raise ValueError("client-certificate and client-key belong together, and one is missing")
    return KubeconfigUser(
        token=str(said.get("token") or ""),
        token_file=folder / token_file if token_file else None,
        certificate=certificate,
        key=key,
        name=str(said.get("username") or ""),
        password=str(said.get("password") or ""),
        plugin=_plugin(plugin, folder) if plugin else None,
        acts_as=tuple(_impersonation(said)),
    )


def _impersonation(said: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if said.get("as"):
        yield "Impersonate-User", str(said["as"])
    if said.get("as-uid"):
        yield "Impersonate-Uid", str(said["as-uid"])
    for group in said.get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for name, values in (said.get("as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{name}", str(value)


def _plugin(said: Mapping[str, Any], folder: Path) -> Plugin:
    version, command = str(said.get("apiVersion") or ""), str(said.get("command") or "")
    if version not in _PLUGIN_VERSIONS:
        raise ValueError(
            f"the apiVersion of the exec plug-in is {version!r}; supported are {' and '.join(_PLUGIN_VERSIONS)}"
        )
    if not command:
        raise ValueError("the exec plug-in names no command")
    mode = said.get("interactiveMode") or ("" if version == _PLUGIN_VERSIONS[0] else "IfAvailable")
    if mode not in {"Never", "IfAvailable", "Always"}:
        raise ValueError(f"the exec plug-in has interactiveMode {mode!r}: write Never, IfAvailable or Always")
    return Plugin(
        command=str(folder / command) if "/" in command else command,
        args=tuple(str(one) for one in said.get("args") or ()),
        env=tuple((str(one["name"]), str(one["value"])) for one in said.get("env") or ()),
        version=version,
        mode=mode,
        hint=str(said.get("installHint") or ""),
        wants_cluster=bool(said.get("provideClusterInfo")),
    )


def _pem(said: Mapping[str, Any], key: str, folder: Path) -> Pem:
    if data := said.get(f"{key}-data"):
        return Pem(data=base64.b64decode(data, validate=True))
    return Pem(path=folder / said[key]) if said.get(key) else Pem()


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
