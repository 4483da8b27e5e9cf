"""``sihash serve``: a database behind a web page and HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sihash.cli.options import open_database
from sihash.cli.output import talk
from sihash.server.settings import Limits, ServerSettings, in_address

TOKEN_VARIABLE = "SIHASH_TOKEN"


def serve(
    database: Annotated[Path, typer.Argument(help="A database made by `sihash create`.", metavar="DB")],
    host: Annotated[
        str,
        typer.Option(
            envvar="SIHASH_HOST",
            help="Address to listen on. Other than on the loopback, reading needs the token too.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=1, max=65535, envvar="SIHASH_PORT", help="Port to listen on.")
    ] = 8080,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN_VARIABLE, help="Use this token instead of a generated one."),
    ] = None,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Make a new token; the old one stops working.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            envvar="SIHASH_ALLOW_HOST",
            help="A host name that browsers may use; repeat for more. With it, reading needs the token too.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, envvar="SIHASH_WORKERS", help="Number of processes that answer.")
    ] = 1,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            envvar="SIHASH_LIMIT",
            help="A limit, like image_bytes=8000000; repeat for more. Names: docs/service.md.",
        ),
    ] = None,
) -> None:
    """Serve a database and its page on this machine.

    Changing the database needs a token. Unless you give one, it is generated on the first start and shown
    once; only its hash is stored.

    Example: sihash serve DB
    """
    os.environ.pop(TOKEN_VARIABLE, None)  # not for the processes to come: one of them meets hostile images
    if not host:
        raise typer.BadParameter("--host is empty; give an address like 127.0.0.1, or 0.0.0.0 for all.")
    if token is not None and new_token:
        raise typer.BadParameter(
            f"give a token (--token or {TOKEN_VARIABLE}) or ask for a new one (--new-token), not both."
        )
    limits = Limits.given(limit or ())
    open_database(database).close()  # problems with it are reported here, not by a worker
    try:
        import fastapi  # noqa: F401  # the workers could not report it in one sentence

        from sihash.server.run import listening, run
    except ImportError as error:
        raise ImportError(f"The service needs {error.name}: pip install 'sihash[service]'.") from None

    sockets = listening(host, port)  # before a token is shown that is shown only once
    token_hash, shown = _token(database, token, new_token)
    address = f"http://{in_address(host)}:{port}/"
    talk(f"{database} is served at {address}")
    if shown:
        talk(f"The token, shown this once: {shown}\nTo edit in a browser, open {address}#token={shown}")
    settings = ServerSettings(
        str(database.absolute()), "", token_hash, host, tuple(allow_host or ()), limits=limits
    )
    run(settings, sockets, workers)


def _token(database: Path, chosen: str | None, new: bool) -> tuple[str, str | None]:
    """The hash of the token, and the token itself if it was made just now."""
    from sihash.server import tokens

    if chosen is not None:
        return tokens.chosen_token(chosen), None
    return tokens.new_token(database) if new else tokens.first_token(database)
