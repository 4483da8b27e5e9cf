"""What the OpenAPI description says beyond the types: bodies that are images, errors, the token."""

from __future__ import annotations

from typing import Any

from sihash.server.models import Problem

_PROBLEMS = {
    400: "The request is broken off or no HTTP that we understand",
    401: "The token is missing or wrong",
    403: "The request comes from a page of another site",
    404: "There is no such item or class",
    408: "The body came too slowly",
    409: "Not now: it clashes with the state of the database",
    413: "The body is too large",
    415: "The body is of a wrong type",
    422: "The request cannot be used; the sentence says why",
    421: "The Host is not one of this service",
    503: "Too much at once; try again",
}

IMAGE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The bytes of an image file: JPEG, PNG, GIF, WebP or BMP.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/*",)},
    }
}
TOKEN: dict[str, Any] = {"security": [{"token": []}]}
SECURITY_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "Shown once by `sihash serve`."}
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route may answer with, besides those that any may."""
    return {
        status: {"model": Problem, "description": _PROBLEMS[status]}
        for status in (*statuses, 400, 401, 403, 421)
    }
