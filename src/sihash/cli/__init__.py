"""The `sihash` command: one file a verb."""

import typer

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)


def main() -> None:
    """Entry point of the console script and of ``python -m sihash``."""
    app()
