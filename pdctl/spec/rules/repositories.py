"""Rules on `apt.repositories`."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster


def repositories_have_their_own_names(cluster: Cluster) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for i, repository in enumerate(cluster.apt.repositories):
        at = first.setdefault(repository.name, i)
        if at != i:
            message = (
                f"`{repository.name}` is also the name of apt.repositories[{at}]: one file would hold both"
            )
            yield Finding("REPO001", (*_at(i), "name"), message, "name one of them otherwise")


def flat_repositories_have_no_components(cluster: Cluster) -> Iterator[Finding]:
    """sources.list(5): a suite that ends with `/` is an exact path, and takes no component."""
    for i, repository in enumerate(cluster.apt.repositories):
        flat = [suite for suite in repository.suites if suite.endswith("/")]
        named = [suite for suite in repository.suites if not suite.endswith("/")]
        if flat and repository.components:
            message = (
                f"suite `{flat[0]}` is a flat repository, which has no component `{repository.components[0]}`"
            )
            yield Finding("REPO002", (*_at(i), "components"), message, "leave `components` out")
        elif named and not repository.components:
            hint = "name its components, e.g. `[main]`; a flat repository has the suite `./`"
            yield Finding("REPO002", _at(i), f"suite `{named[0]}` needs `components`", hint)


def _at(index: int) -> Path:
    return ("apt", "repositories", index)
