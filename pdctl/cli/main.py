"""The program: its commands, and the only place where an error is caught and printed."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

from pdctl import __version__
from pdctl.cli import adopt, apply, bench, bundle, change, doctor, explain, history, lock, observe, spec
from pdctl.cli.finish import Finish
from pdctl.cli.lab import lab_app
from pdctl.errors import PdctlError

app = typer.Typer(
    name="pdctl",
    help="Build, check and measure prefill/decode-disaggregated LLM serving on plain GPU servers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (spec, doctor, lock, explain, adopt, change, apply, history, observe, bench, bundle):
    module.register(app)
app.add_typer(lab_app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"pdctl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of unexpected errors.")] = False,
) -> None:
    """Nothing to do before a command; `--debug` is read where errors are printed."""


def run() -> NoReturn:
    """Run a command; exit codes: 0 fine, 1 error, 2 difference found, 3 SLO missed, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a sign gets its number
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
        code = 0
    except SystemExit as end:
        # typer makes an exit of a KeyboardInterrupt; its 2 for wrong usage means a difference here.
        code = _interrupted() if end.code == 130 else _usage() if end.code else 0
    except Finish as finish:
        code = finish.code
    except PdctlError as error:
        code = _show(error)
    except KeyboardInterrupt:
        code = _interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        code = _show(PdctlError(error.strerror or str(error), where=error.filename and str(error.filename)))
    except Exception as error:  # noqa: BLE001 -- the last catch: our own bug, shown short
        code = _bug(error)
    if "--timing" in sys.argv:
        _show_timing()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done and said: while Python ends it changes nothing
    sys.exit(code)


def _show_timing() -> None:
    from pdctl.hosts.timing import laps, timing_document
    from pdctl.views.console import err
    from pdctl.views.timing import show_timing

    show_timing(timing_document(laps), err())


def _show(error: PdctlError) -> int:
    from pdctl.views.console import err, error_document, print_json, printed_json, show_error

    if "--json" in sys.argv and not printed_json():
        print_json(error_document(error))
    show_error(error, err())
    return error.exit_code


def _usage() -> int:
    """typer has said what is wrong on stderr; who asked for JSON gets a document too."""
    from pdctl.views.console import printed_json

    if "--json" in sys.argv and not printed_json():
        with contextlib.suppress(BrokenPipeError):  # typer ends like this when the reader has left, too
            print('{"error": "wrong usage; see stderr", "where": null, "hint": "pdctl --help"}')
    return 1


def _interrupted() -> int:
    sys.stderr.write("interrupted; run the same command again to go on\n")
    return 130


def _bug(error: Exception) -> int:
    import traceback

    if "--debug" in sys.argv:
        traceback.print_exc()
        return 1
    from pdctl.hosts.local_lock import state_folder

    state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    log = state_folder() / "error.log"
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
        traceback.print_exc(file=file)
    sys.stderr.write(f"error: pdctl has a bug: {type(error).__name__}; details are in {log}\n")
    return 1


if __name__ == "__main__":
    run()
