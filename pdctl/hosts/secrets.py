"""References to secrets -> their values, read on the controller at the moment they are needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pdctl.desired.render import env_file
from pdctl.errors import SpecError
from pdctl.spec.model import Cluster, Secret
from pdctl.spec.places import beside
from pdctl.state.digest import secret_digest


def secrets_digest(cluster: Cluster, folder: Path) -> str:
    """Digest of the secrets file as the hosts would get it; empty when the spec has no secrets.

    Raises SpecError naming the secret and its source, never its value.
    """
    if not cluster.secrets:
        return ""
    values = read_secrets(cluster.secrets, folder)
    return secret_digest(env_file(values).encode(), cluster.cluster)


def read_secrets(secrets: Mapping[str, Secret], folder: Path) -> dict[str, str]:
    """Values by name; files lose their last line end. Relative files are resolved against `folder`."""
    return {name: _value(name, secret, folder) for name, secret in secrets.items()}


def _value(name: str, secret: Secret, folder: Path) -> str:
    where = f"secrets.{name}"
    if secret.from_env:
        value = os.environ.get(secret.from_env)
        if not value:
            raise SpecError(
                f"the environment variable {secret.from_env} is not set",
                where=where,
                hint=f"run `export {secret.from_env}=...` first",
            )
        return _one_line(value, where)
    path = beside(folder, secret.from_file or "")
    try:
        return _one_line(path.read_text().removesuffix("\n"), where)
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}", where=where) from None


def _one_line(value: str, where: str) -> str:
    if any(c in value for c in "\n\r\0"):
        raise SpecError("the secret must be one line without NUL", where=where)
    return value
