"""The `sihash` command: one file per verb.

Heavy modules are imported when a verb runs, so that help, errors and completion are quick.
"""

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sihash.cli.add import add
from sihash.cli.classify import classify
from sihash.cli.create import create
from sihash.cli.demo import demo
from sihash.cli.doctor import doctor
from sihash.cli.evaluate import evaluate
from sihash.cli.info import info
from sihash.cli.maintenance import backup, compact, export, merge, restore, undo, verify
from sihash.cli.output import errors_as_sentences
from sihash.cli.refeature import refeature
from sihash.cli.relabel import relabel
from sihash.cli.remove import remove
from sihash.cli.search import search
from sihash.cli.serve import serve
from sihash.cli.update import update

SECTIONS: dict[str, list[Callable[..., None]]] = {
    "Start here": [demo],
    "A database": [create, search, classify, add, remove, relabel, update, undo],
    "Care for it": [
        info,
        evaluate,
        doctor,
        export,
        verify,
        backup,
        restore,
        compact,
        refeature,
        merge,
        serve,
    ],
}


class Sections(TyperGroup):
    """The list of verbs, under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = {heading: [verb.__name__ for verb in verbs] for heading, verbs in SECTIONS.items()}
        for heading, listed in names.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(64)) for name in listed])


app = typer.Typer(
    cls=Sections,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes leave too little room for words at 80 columns
    context_settings={"max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from sihash import __version__

        typer.echo(f"sihash {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    allow_index_host: Annotated[
        list[str] | None,
        typer.Option(
            envvar="SIHASH_ALLOW_INDEX_HOST",
            help="A host on which a database may be searched, if it names a Milvus server; repeat for more.",
        ),
    ] = None,
) -> None:
    """Search labelled collections of images or vectors by short binary codes.

    Example: sihash create DB photos/ && sihash search DB query.jpg
    """
    if allow_index_host:
        os.environ["SIHASH_ALLOW_INDEX_HOST"] = " ".join(allow_index_host)  # for processes to come, too


for verbs in SECTIONS.values():
    for verb in verbs:
        app.command()(errors_as_sentences()(verb))


def main() -> None:
    """Entry point of the console script and of ``python -m sihash``."""
    app()
