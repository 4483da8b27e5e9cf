"""The `sihash` command: one file a verb.

What is heavy is imported when a verb runs, so that help and completion are quick.
"""

from collections.abc import Callable

import typer

from sihash.cli import data
from sihash.cli.add import add
from sihash.cli.classify import classify
from sihash.cli.create import create
from sihash.cli.demo import demo
from sihash.cli.doctor import doctor
from sihash.cli.evaluate import evaluate
from sihash.cli.extract import extract
from sihash.cli.info import info
from sihash.cli.merge import merge
from sihash.cli.output import all_told
from sihash.cli.relabel import relabel
from sihash.cli.remove import remove
from sihash.cli.reproduce import reproduce
from sihash.cli.search import search
from sihash.cli.serve import serve
from sihash.cli.update import update
from sihash.cli.upkeep import compact, export, undo, verify

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Binary codes for semantic search that follow a changing collection.",
)
app.command()(all_told()(demo))
PANELS: dict[str, list[Callable[..., None]]] = {
    "A database": [create, search, classify, add, remove, relabel, update, undo],
    "Its upkeep": [info, evaluate, doctor, export, verify, compact, merge, serve],
    "Data and research": [extract, reproduce],
}
for panel, verbs in PANELS.items():
    for verb in verbs:
        app.command(rich_help_panel=panel)(all_told()(verb))
app.add_typer(data.app, name="data", rich_help_panel="Data and research")


def main() -> None:
    """Entry point of the console script and of ``python -m sihash``."""
    app()
