"""Rules on secrets: named by reference, once, and never by value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdctl.knowledge.secrecy import HUGGING_FACE_WORD, NAMES, REAL_TOKEN
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import pools

# Values of such variables end up in files that are not kept secret.
SECRET_NAME = re.compile(rf"(^|_)({NAMES})$")
HINT = "name it under `secrets` as {from_env: NAME} or {from_file: PATH}"


def each_has_one_source(cluster: Cluster) -> Iterator[Finding]:
    for name, secret in cluster.secrets.items():
        given = [s for s in (secret.from_env, secret.from_file) if s is not None]
        if len(given) != 1:
            yield Finding(
                "SECRET002",
                ("secrets", name),
                "needs exactly one of `from_env` and `from_file`" + (", not both" if given else ""),
                f"write `{name}: {{from_env: VARIABLE}}` or `{name}: {{from_file: PATH}}`",
            )


def values_stay_out(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        for name, value in pool.env.items():
            if _is_token(value):
                yield Finding("SECRET001", (*path, "env", name), "a secret never stands in this file", HINT)
            elif SECRET_NAME.search(name) and value:
                yield Finding("SECRET005", (*path, "env", name), "a secret never stands in this file", HINT)
        for i, word in enumerate(pool.extra_args):
            if _is_token(word.rpartition("=")[2]):
                yield Finding(
                    "SECRET001", (*path, "extra_args", i), "a secret never stands in this file", HINT
                )


def names_are_given_once(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        for name in pool.env:
            if name in cluster.secrets:
                yield Finding(
                    "SECRET003",
                    (*path, "env", name),
                    f"`{name}` is also under `secrets`",
                    "keep one of them",
                    on_key=True,
                )


def _is_token(text: str) -> bool:
    whole = re.search(REAL_TOKEN, text)  # `leaks` tells those
    return not whole and bool(re.fullmatch(HUGGING_FACE_WORD, text))
