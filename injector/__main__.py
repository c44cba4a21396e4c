"""``python -m injector``."""

from injector.cli import main

main(prog_name="injector")
