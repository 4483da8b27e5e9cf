"""What the OpenAPI description says beyond the types: bodies that are images, errors, the token."""

from __future__ import annotations

from typing import Any

from sihash.server.models import ErrorAnswer, Request

_PROBLEMS = {
    400: "The request is broken off or no HTTP that we understand",
    401: "The token is missing or wrong",
    403: "The request comes from a page of another site",
    404: "There is no such item or class",
    408: "The body came too slowly",
    409: "Not now: it clashes with the state of the database",
    413: "The body is too large, or its images have too many pixels together",
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
HITS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/json": {
                "example": {
                    "version": 3,
                    "rank": "combined",
                    "query_code": "5a01ff3c",
                    "remark": None,
                    "hits": [
                        {
                            "id": "cat/17.jpg",
                            "label": "cat",
                            "labels": ["cat"],
                            "name": "cat/17.jpg",
                            "distance": 1,
                            "score": 0.72,
                            "code": "5b01ff3c",
                            "why": {"same_class": 0.93, "margin": 0.88, "vector": 0.79},
                            "columns": {"price": 19.5},
                        }
                    ],
                }
            }
        }
    }
}
NEEDS_TOKEN: dict[str, Any] = {"security": [{"token": []}]}
SECURITY_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "Shown once by `sihash serve`."}
}


def query_parameters(model: type[Request], names: dict[str, str]) -> dict[str, Any]:
    """The fields of a model as parameters of an address; ``names`` are those called otherwise there."""
    fields = model.model_json_schema()["properties"]
    return {
        "parameters": [
            {"name": names.get(field, field), "in": "query", "required": False, "schema": schema}
            for field, schema in fields.items()
        ]
    }


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route may answer with, besides those that any may."""
    return {
        status: {"model": ErrorAnswer, "description": _PROBLEMS[status]}
        for status in (*statuses, 400, 401, 403, 421)
    }
