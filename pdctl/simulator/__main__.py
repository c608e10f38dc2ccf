"""`python -m pdctl_simulator serve MODEL [flags of vllm serve]` -> a process that plays the engine."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence

from .args import check_arguments, parse_arguments
from .errors import StartError
from .parameters import parse_parameters
from .server import serve
from .transfer import parse_transfer


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """The exit code: 0 after SIGTERM, 1 when it cannot start or the engine died, 2 on wrong arguments."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(levelname)s %(asctime)s [%(name)s] %(message)s",
        datefmt="%m-%d %H:%M:%S",
    )
    try:
        parameters = parse_parameters(environ.get("PDCTL_SIMULATOR"))
        arguments = parse_arguments(sys.argv[1:] if argv is None else argv, parameters.vllm_version)
        check_arguments(arguments, environ, parameters.kv_cache_tokens)
        transfer = parse_transfer(arguments.kv_transfer, parameters.vllm_version)
        return asyncio.run(serve(arguments, parameters, transfer, environ))
    except StartError as error:
        logging.getLogger("simulator").error("the engine does not start: %s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
