"""Names of images, as registries and container runtimes read them (github.com/distribution/reference).

`debian` is `docker.io/library/debian:latest`: an image that is imported under one of these names can be used under the
others.
"""

from __future__ import annotations

import re

from phalanx.errors import PhalanxError

_MOST = 255
_NAME = re.compile(
    r"(?P<path>[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def normalized(name: str) -> str:
    """Return the name in full: registry, path, and tag or digest. Raises PhalanxError."""
    found = _NAME.fullmatch(name) if len(name) <= _MOST else None
    if found is None:
        raise PhalanxError(
            f"{name[:_MOST]!r} is no name of an image; write [REGISTRY/]NAME[:TAG], such as debian:12 or "
            "registry.example.org/team/train:1.4"
        )
    path, tag, digest = found["path"], found["tag"], found["digest"]
    if ":" in path and "/" not in path:  # without a slash after it, the part after the colon is a tag, not a port
        path, _, tag = path.partition(":")
    first, slash, rest = path.partition("/")
    if not slash:
        path = f"docker.io/library/{path}"
    elif not ("." in first or ":" in first or first == "localhost"):
        path = f"docker.io/{path}"
    elif first == "docker.io" and "/" not in rest:
        path = f"docker.io/library/{rest}"
    return f"{path}@{digest}" if digest else f"{path}:{tag or 'latest'}"
