"""`python -m pdctl`."""

from pdctl.cli.main import run

run()
