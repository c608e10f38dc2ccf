"""`python -m pdctl_proxy --config FILE`: exit 0 after SIGTERM, 1 if it cannot listen, 2 for a bad config."""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import signal
import sys
from pathlib import Path

from . import __version__
from .config import load
from .service import BindError, run
from .typed import ConfigError


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdctl_proxy", description="The PD proxy of a pdctl cluster.")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the cluster's proxy.json")
    parser.add_argument("--version", action="version", version=__version__)
    path: Path = parser.parse_args(argv).config
    log_to_stderr()
    signal.signal(
        signal.SIGHUP, signal.SIG_IGN
    )  # until it means a reload: the file is about to be read anyway
    try:
        loaded = load(path)
        raise_file_limit()
        return asyncio.run(run(loaded))
    except ConfigError as error:
        print(f"pdctl_proxy: {error}", file=sys.stderr)
        return 2
    except BindError as error:
        print(f"pdctl_proxy: {error}", file=sys.stderr)
        return 1


class OneLine(logging.Formatter):
    """A record in one line, its traceback included: a journal is read by line."""

    def format(self, record: logging.LogRecord) -> str:
        return " | ".join(part.strip() for part in super().format(record).splitlines() if part.strip())


def log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def raise_file_limit() -> None:
    """A streamed request holds two sockets; the usual soft limit of 1,024 would be a hidden ceiling."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
