"""The text of a version -> its parts: numbers, minor release, the CUDA that a torch was built for."""

from __future__ import annotations

import re

RELEASE = re.compile(r"(\d+(?:\.\d+)*)(?:\.post\d+)?(?:\+(?P<local>[a-z0-9.]+))?")


def numbers(version: str) -> tuple[int, ...]:
    """`0.3.10.post1+cu128` -> (0, 3, 10); trailing zeros count for nothing."""
    found = [int(n) for n in re.findall(r"\d+", re.split(r"\.post|\+|-", version)[0])]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def minor(version: str) -> str:
    """`2.8` of `2.8.0+cu128`."""
    return ".".join(version.split("+")[0].split(".")[:2])


def torch_cuda(torch: str) -> str | None:
    """`12.8` of `2.8.0+cu128`, `cpu` of `2.13.0+cpu`; None when the version does not say."""
    local = torch.partition("+")[2]
    match = re.fullmatch(r"cu(\d\d)(\d+)", local)
    return f"{match[1]}.{match[2]}" if match else "cpu" if local == "cpu" else None
