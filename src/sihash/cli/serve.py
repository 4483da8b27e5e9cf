"""``sihash serve``: a database behind a web page and HTTP."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sihash.cli.options import open_database
from sihash.cli.output import print_message
from sihash.server.logs import Format, Level
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
    read_only: Annotated[
        bool, typer.Option("--read-only", envvar="SIHASH_READ_ONLY", help="Refuse to change the database.")
    ] = False,
    title: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            envvar="SIHASH_TITLE",
            help="The column of texts that the page shows as the title of an item. Default: a guess.",
        ),
    ] = None,
    log_level: Annotated[
        Level,
        typer.Option(
            envvar="SIHASH_LOG_LEVEL",
            help="What is logged to stderr: info has a line per request and per update.",
        ),
    ] = "warning",
    log_format: Annotated[
        Format, typer.Option(envvar="SIHASH_LOG_FORMAT", help="How: lines of text, or JSON objects.")
    ] = "text",
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
    with open_database(database) as opened:  # problems with it are reported here, not by a worker
        columns = opened.info()["columns"]
    if title is not None and columns.get(title) != "text":
        texts = [name for name, kind in columns.items() if kind == "text"]
        there = f"there are {', '.join(texts)}" if texts else "the items have no columns of texts"
        raise typer.BadParameter(f"--title needs a column of texts, got {title!r}; {there}.")
    try:
        import fastapi  # noqa: F401  # the workers could not report it in one sentence

        from sihash.server.run import listening, run
    except ImportError as error:
        raise ImportError(f"The service needs {error.name}: pip install 'sihash[service]'.") from None

    sockets = listening(host, port)  # before a token is shown that is shown only once
    settings = ServerSettings(
        str(database.absolute()),
        run_folder="",
        token_hash="",
        host=host,
        host_names=tuple(allow_host or ()),
        read_only=read_only,
        title=title,
        log_level=log_level,
        log_format=log_format,
        limits=limits,
    )
    token_hash, shown = _token(database, token, new_token, needed=not (read_only and settings.reads_freely))
    address = f"http://{in_address(host)}:{port}/"
    print_message(f"{database} is served at {address}")
    if shown:
        print_message(
            f"The token, shown this once: {shown}\nTo edit in a browser, open {address}#token={shown}"
        )
    run(replace(settings, token_hash=token_hash), sockets, workers)


def _token(database: Path, chosen: str | None, new: bool, needed: bool) -> tuple[str, str | None]:
    """The hash of the token ("" if nobody needs one), and the token itself if it was made just now."""
    from sihash.server import tokens

    if not needed and chosen is None and not new:
        return "", None
    if chosen is not None:
        return tokens.chosen_token(chosen), None
    return tokens.new_token(database) if new else tokens.first_token(database)
