"""Read the user of a forwarded request. An API server forwards it with the front proxy's certificate and puts the user
into headers.

The ConfigMap kube-system/extension-apiserver-authentication names the certificate authority, the allowed common names
and the headers. Every request is refused until the settings are known.

Source: k8s.io/apiserver/pkg/authentication/request/headerrequest and pkg/server/options/authentication.go of 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

NAMESPACE: Final = "kube-system"
CONFIG_MAP: Final = "extension-apiserver-authentication"
_PREFIX = "requestheader-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The user of a forwarded request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """The front proxy's settings in a cluster. `authority`: certificates in PEM. `names`: the allowed common names of
    the front proxy's certificate; empty: every name is allowed. The other fields are header names in lower case."""

    authority: str
    names: frozenset[str]
    user: tuple[str, ...]
    uid: tuple[str, ...]
    group: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    def asker(self, common_name: str, headers: Iterable[tuple[str, str]]) -> Asker | None:
        """Return the user in the headers; None if the certificate's common name is not allowed, or no user is named."""
        if self.names and common_name not in self.names:
            return None
        said: dict[str, list[str]] = {}
        for name, value in headers:
            said.setdefault(name.lower(), []).append(value)
        name = _first(said, self.user)
        if not name:
            return None
        groups = tuple(value for header in self.group for value in said.get(header, ()))
        return Asker(name=name, uid=_first(said, self.uid), groups=groups, extra=tuple(self._extra(said)))

    def _extra(self, said: Mapping[str, list[str]]) -> Iterable[tuple[str, tuple[str, ...]]]:
        for name, values in said.items():
            prefix = next((one for one in self.extra_prefixes if name.startswith(one)), None)
            if prefix is not None:
                yield unquote(name.removeprefix(prefix)), tuple(values)


def read_front_proxy(data: Mapping[str, str]) -> FrontProxy:
    """Return the settings in the ConfigMap's data. Raises ValueError with the reason if they are invalid."""
    authority = data.get(f"{_PREFIX}client-ca-file") or ""
    if not authority:
        raise ValueError(
            f"{_PREFIX}client-ca-file is not there: the API server is started without an authority of the front proxy "
            "(--requestheader-client-ca-file), so no API can be aggregated"
        )
    user = _listed(data, "username-headers")
    if not user:
        raise ValueError(f"{_PREFIX}username-headers names no header: the API server says for nobody that he asks")
    return FrontProxy(
        authority=authority,
        names=frozenset(_listed(data, "allowed-names")),
        user=tuple(one.lower() for one in user),
        uid=tuple(one.lower() for one in _listed(data, "uid-headers")),
        group=tuple(one.lower() for one in _listed(data, "group-headers")),
        extra_prefixes=tuple(one.lower() for one in _listed(data, "extra-headers-prefix")),
    )


def _listed(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return a list of names that the ConfigMap has as JSON; empty if the key is absent."""
    text = data.get(f"{_PREFIX}{key}") or "[]"
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{_PREFIX}{key} is no list of names: {text[:80]}")
    return tuple(found)


def _first(said: Mapping[str, list[str]], headers: Iterable[str]) -> str:
    return next((value for header in headers for value in said.get(header, ()) if value), "")
