"""``sihash serve``: a database for people and programs that do not run Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sihash.cli.output import errors_told, talk

TOKEN = "SIHASH_TOKEN"


def serve(
    database: Annotated[Path, typer.Argument(help="A database made by `sihash create`.", metavar="DB")],
    host: Annotated[
        str,
        typer.Option(help="Address to bind to; elsewhere than the loopback, reading needs the token too."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, envvar="SIHASH_PORT")] = 8080,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN, help="Use this token instead of the one made on first start."),
    ] = None,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Make a new token; the one before ends.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name by which browsers reach the service; may be repeated.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer.")] = 1,
) -> None:
    """Serve a database and its page on this machine.

    Changing the database needs a token. It is made on the first start and shown once; only its hash is kept.
    """
    os.environ.pop(TOKEN, None)  # not for the processes to come: one of them meets hostile images
    with errors_told():
        from sihash.database import ImageDatabase
        from sihash.server import tokens
        from sihash.server.run import run
        from sihash.server.settings import in_address

        ImageDatabase(database).close()  # what is wrong with it is told here, not by a worker
        shown = None
        if token is not None:
            token_hash = tokens.chosen_token(token)
        else:
            token_hash, shown = tokens.new_token(database) if new_token else tokens.first_token(database)
        address = f"http://{in_address(host)}:{port}/"
        talk(f"{database} is served at {address}")
        if shown:
            talk(f"The token, shown this once: {shown}\nTo edit in a browser, open {address}#token={shown}")
        run(str(database.absolute()), host, port, token_hash, tuple(allow_host or ()), workers)
