"""Where an API server is, and who we are there: a kubeconfig file, else the service account of the pod we run in.

Reading these (token files, exec plug-ins, merged files) is kubernetes_asyncio's. It trusts what it reads, so a
malformed file makes it fail in any way; here each of them becomes one error that says which file, and what to do.
"""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import Any

from phalanx.errors import PhalanxError

_DEFAULT = "~/.kube/config"
_CURE = "Name a kubeconfig with --kubeconfig FILE or KUBECONFIG; `phalanx up` prints the path of its own."
# It says on this logger what its exceptions do not, without a place; we say it with one.
logging.getLogger("kubernetes_asyncio.config").setLevel(logging.CRITICAL)


async def read_credentials(kubeconfig: str | Path | None, context: str | None) -> Any:
    """A `kubernetes_asyncio.client.Configuration`. Like kubectl, KUBECONFIG may name several files, of which those that
    exist are merged. Raises PhalanxError if there is none, or it cannot be used."""
    # Imported here because it takes half a second, and `phalanx --help` needs none of it.
    from kubernetes_asyncio import config as loader
    from kubernetes_asyncio.client import Configuration

    found = Configuration()
    said = str(kubeconfig or os.environ.get("KUBECONFIG") or "")
    there = _existing(said or _DEFAULT)
    if said and not there:
        raise PhalanxError(f"cannot tell which cluster to talk to: there is no file {said}. {_CURE}")
    try:
        if there:
            await loader.load_kube_config(there, context=context, client_configuration=found)
        else:
            loader.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]  # it has no types
    except (loader.ConfigException, OSError) as error:
        where = f"{there}: " if there else ""
        raise PhalanxError(f"cannot tell which cluster to talk to: {where}{error}. {_CURE}") from error
    except Exception as error:  # the loader trips over a malformed file in every way there is
        raise PhalanxError(
            f"cannot tell which cluster to talk to: {there} is no kubeconfig ({_short(error)}). {_CURE}"
        ) from error
    return found


def tls_context(found: Any) -> ssl.SSLContext | None:
    """None for plain HTTP. Raises PhalanxError if the certificates cannot be used."""
    if not found.host.startswith("https"):
        return None
    try:
        context = ssl.create_default_context(cafile=found.ssl_ca_cert)
        if found.cert_file:
            context.load_cert_chain(found.cert_file, found.key_file)
    except OSError as error:
        raise PhalanxError(
            f"the certificates of the kubeconfig for {found.host} cannot be used: {_short(error)}. Nothing was done. "
            "Fetch the kubeconfig anew, or name another with --kubeconfig."
        ) from error
    if not found.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _existing(files: str) -> str:
    paths = [Path(part).expanduser() for part in files.split(os.pathsep) if part]
    return os.pathsep.join(str(path) for path in paths if path.exists())


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
