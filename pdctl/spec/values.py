"""Value types of the spec: what a name, a version, a port or a path may look like."""

from __future__ import annotations

import ipaddress
import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Section(BaseModel):
    """A mapping of the spec: unknown keys and loose types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            "use 1 to 32 lower-case letters, digits and hyphens, beginning with a letter or digit"
        )
    return value


def _host_name(value: str) -> str:
    if not HOST_NAME.fullmatch(value):
        raise ValueError("use 1 to 63 letters, digits, `-` or `_`")
    return value


def _address(value: str) -> str:
    try:
        ipaddress.ip_address(value)
        return value
    except ValueError:
        pass
    if re.fullmatch(r"[0-9.]+", value):
        raise ValueError("is not a valid IPv4 address")
    if "_" in value:
        raise ValueError("`_` is not legal in a host name used in URLs (RFC 952/1123); use a hyphen or an IP")
    if len(value) > 253 or not all(DNS_LABEL.fullmatch(label) for label in value.split(".")):
        raise ValueError(
            "is neither an IP address nor a legal host name (labels of 1 to 63 letters, digits, `-`)"
        )
    return value


def _line(value: str) -> str:
    if bad := next((c for c in value if c in "\n\r\0"), None):
        raise ValueError(f"must be one line without NUL (found {bad!r})")
    return value


def _absolute(value: str) -> str:
    _line(value)
    if not value.startswith("/") or ".." in PurePosixPath(value).parts:
        raise ValueError("must be an absolute path without `..`")
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not ENV_NAME.fullmatch(name):
            raise ValueError(f"`{name}` is not a name for an environment variable")
        try:
            _line(value[name])
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from None
    return value


Name = Annotated[str, AfterValidator(_name)]
HostName = Annotated[str, AfterValidator(_host_name)]
Address = Annotated[str, AfterValidator(_address)]
Line = Annotated[str, AfterValidator(_line), Field(min_length=1)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
Environment = Annotated[dict[str, str], AfterValidator(_environment)]
Version = Annotated[
    str,
    AfterValidator(_line),
    Field(
        min_length=1,
        max_length=80,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.+:~_-]*$",
        json_schema_extra={"version": True},
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1, le=512)]
TensorParallel = Annotated[int, Field(ge=1, le=64)]
