"""The `sihash` command: one file a verb."""

import typer

from sihash.cli import data
from sihash.cli.demo import demo
from sihash.cli.evaluate import evaluate
from sihash.cli.extract import extract
from sihash.cli.reproduce import reproduce
from sihash.cli.serve import serve

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
app.command()(demo)
app.add_typer(data.app, name="data")
app.command()(extract)
app.command()(evaluate)
app.command()(reproduce)
app.command()(serve)


def main() -> None:
    """Entry point of the console script and of ``python -m sihash``."""
    app()
