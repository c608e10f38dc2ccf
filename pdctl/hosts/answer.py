"""The probe's answer, checked once at this edge: JSON of one host -> values."""

from __future__ import annotations

import base64
from functools import cache
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
)

from pdctl.errors import HostError
from pdctl.hosts.observation import Facts, Kept, OwedReboot, OwedRestart
from pdctl.plan.foreign import Foreign
from pdctl.state import Directory, File, Package, Unit, User, Venv, Weights

RECORD_VERSION = 1


def _decoded(text: Any) -> Any:
    return base64.b64decode(text, validate=True) if isinstance(text, str) else text


def _kind(row: Any) -> str:
    return row.get("kind", "") if isinstance(row, dict) else ""


Row = Annotated[
    Annotated[User, Tag("user")]
    | Annotated[Directory, Tag("directory")]
    | Annotated[File, Tag("file")]
    | Annotated[Package, Tag("package")]
    | Annotated[Venv, Tag("venv")]
    | Annotated[Weights, Tag("weights")]
    | Annotated[Unit, Tag("unit")],
    Discriminator(_kind),
]


class Created(BaseModel):
    """The part of a recorded row that only the record knows."""

    created: bool = True


class Pending(BaseModel):
    """A resource that an interrupted apply was working on, or a unit that it did not see healthy."""

    id: str
    created: bool = True
    why: str = ""


class Record(BaseModel):
    """record.json. `rows` and `flags` read the same list: the resources, and who made them."""

    version: int = Field(le=RECORD_VERSION)
    applied_at: str = ""
    by: str = ""
    pdctl: str = ""
    spec_digest: str = ""
    rows: list[Row] = Field(validation_alias="resources")
    flags: list[Created] = Field(validation_alias=AliasChoices("resources"))
    pending: list[Pending] = []
    owed: dict[str, OwedRestart] = {}
    timings: dict[str, float] = {}
    reboot: OwedReboot | None = None


class Answer(BaseModel):
    """What one host says. After `errors` its resources are not known, after `notes` they are."""

    resources: list[Row]
    record: Record | None
    contents: dict[str, Annotated[bytes, BeforeValidator(_decoded)]] = {}
    bundle: dict[str, int] = {}
    facts: Facts
    strays: list[str] = []
    foreign: list[Foreign] = []
    kept: Kept | None = None
    errors: list[str] = []
    notes: list[str] = []


def parse_answer(host: str, data: Any) -> Answer:
    """Whatever else a host says is an error of that host alone."""
    try:
        return _adapter().validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["loc"] == ("record", "version"):
            raise HostError(
                f"its record was written by a newer pdctl (version {first['input']})",
                where=host,
                hint="upgrade pdctl here",
            ) from None
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise HostError(f"the probe's answer is wrong at {place}: {first['msg']}{more}", where=host) from None


@cache
def _adapter() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)
