"""`apt.repositories` of the spec: where packages come from that the hosts' own sources do not have."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pdctl.spec.values import Name, Section, Word

URI = r"(https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?|file:)(/[A-Za-z0-9._~+%/-]*)?"
BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
# RFC 9580, 6.2: armour headers, then base64 with a checksum that may be left out.
ARMOURED = re.compile(rf"{BEGIN}\n([A-Z][A-Za-z-]*: [ -~]*\n)*\s*\n[A-Za-z0-9+/=\n]+\n{END}")
ON_HOSTS = re.compile(r"/[A-Za-z0-9._+/-]+\.(gpg|asc)")
# The same for editors, loosely.
KEY = rf"{ON_HOSTS.pattern}|\s*{BEGIN}[\s\S]*{END}\s*"
EXPORT = "gpg --export --armor"


def _uri(value: str) -> str:
    if "@" in value:
        raise ValueError("must hold no password: put it into a file of /etc/apt/auth.conf.d on the hosts")
    if not re.fullmatch(URI, value):
        raise ValueError("is no address of a repository: write `https://...`, `http://...` or `file:/...`")
    return value


def _key(value: str) -> str:
    text = value.strip()
    if "PRIVATE KEY" in text:
        raise ValueError(
            f"must be the public key ({EXPORT}): this is a private one, now known to whoever reads it"
        )
    if not ARMOURED.fullmatch(text) and not ON_HOSTS.fullmatch(text):
        raise ValueError(
            f"must be a public key as text, from `{BEGIN}` to its end ({EXPORT}), or the path of a .gpg or"
            " .asc file that the hosts have"
        )
    return text


Uri = Annotated[str, Field(max_length=1024, json_schema_extra={"pattern": f"^{URI}$"}), AfterValidator(_uri)]
ArchiveKey = Annotated[
    str, Field(max_length=65536, json_schema_extra={"pattern": f"^({KEY})$"}), AfterValidator(_key)
]


class Repository(Section):
    """One repository of packages. Its key is bound to it: no other repository is trusted for it."""

    name: Name = Field(description="What its file on the hosts is called.")
    uri: Uri = Field(description="Where it is, e.g. that of CUDA or DOCA for the hosts' system.")
    suites: list[Word] = Field(
        ["./"],
        min_length=1,
        max_length=16,
        description="Its suites; one that ends with `/` is a flat repository, as those of CUDA and DOCA are.",
    )
    components: list[Word] = Field(
        [], max_length=16, description="Its components, e.g. `restricted`; flat repositories have none."
    )
    key: ArchiveKey = Field(
        description="The public key that signs it, as text (`|`), or the path of a key file that the hosts"
        " have, e.g. `/usr/share/keyrings/ubuntu-archive-keyring.gpg`."
    )
    os: list[Literal["debian-12", "ubuntu-22.04", "ubuntu-24.04"]] = Field(
        [], max_length=3, description="Only for hosts with these systems; default: all."
    )
