"""CertificateSigningRequests. The server stores these requests for signers that a user runs, and does not sign them
itself. It writes the requesting user into each request, and clients cannot change that user. Source:
pkg/registry/certificates/certificates, pkg/apis/certificates (v1 defaults, validation).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

from cryptography import x509

from phalanx.embedded.apimachinery.meta.resource import Object, User
from phalanx.embedded.apimachinery.meta.status import Cause, duplicate, invalid_value, not_supported, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

GROUP = "certificates.k8s.io"
_SHORTEST_S = 600
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def ask_as(obj: Object, user: User) -> None:
    """Write the requesting user into a new request. A user that the client has written into the request is replaced."""
    spec = obj.setdefault("spec", {})
    for field, value in (("username", user.name), ("uid", user.uid), ("groups", list(user.groups))):
        spec.pop(field, None)
        if value:
            spec[field] = value


class SigningRequestStrategy(SpecAndStatus):
    """The strategy of `certificatesigningrequests.certificates.k8s.io`."""

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        try:
            x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        except (ValueError, binascii.Error):
            found.append(
                invalid_value("spec.request", spec.get("request"), "PEM block type must be CERTIFICATE REQUEST")
            )
        usages = spec.get("usages") or ()
        if not usages:
            found.append(required("spec.usages"))
        for index, usage in enumerate(usages):
            if usage not in _USAGES:
                found.append(not_supported(f"spec.usages[{index}]", usage, _USAGES))
            elif usage in usages[:index]:
                found.append(duplicate(f"spec.usages[{index}]", usage))
        if not (signer := spec.get("signerName")):
            found.append(required("spec.signerName"))
        else:
            formatted(found, "spec.signerName", signer, formats.domain_path)
        if (lifetime_s := spec.get("expirationSeconds")) is not None and lifetime_s < _SHORTEST_S:
            found.append(
                invalid_value(
                    "spec.expirationSeconds",
                    lifetime_s,
                    f"may not specify a duration less than {_SHORTEST_S} seconds (10 minutes)",
                )
            )
        return found

    def selectable_names(self) -> Iterable[str]:
        return ("spec.signerName",)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.signerName": obj["spec"].get("signerName", "")}

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        obj["spec"] = old["spec"]
