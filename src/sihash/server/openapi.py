"""What the OpenAPI description says beyond the types: images, errors, the token, this database."""

from __future__ import annotations

import re
from typing import Any

from sihash.server.guard import TOKEN_CHECK
from sihash.server.models import ErrorAnswer, InfoAnswer, Request

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


def describe_database(description: dict[str, Any], info: InfoAnswer) -> None:
    """Make a description that of the service over one database, whose requests are narrower.

    Routes that change it stay out where the service is read-only, those for images where the database holds
    vectors, and the other way round; vectors have a length; conditions are about columns that exist.
    """
    paths, schemas = description["paths"], description["components"]["schemas"]
    item = schemas["BatchItem"]
    kind, other = ("image", "vector") if info.holds_images else ("vector", "image")
    for search in ("search", "classify"):
        del paths[f"/v1/{search}/{other}"]
    del item["properties"][other]
    item["required"] = [kind]
    item["properties"][kind] = _not_null(item["properties"][kind])
    if info.holds_images:
        del schemas["VectorSearch"], schemas["VectorQuery"]
    else:
        del paths["/v1/items"]["post"]
        for name in ("VectorSearch", "VectorQuery", "BatchItem"):
            vector = schemas[name]["properties"]["vector"]
            vector |= {"minItems": info.width, "maxItems": info.width}
            vector.pop("examples", None)
    _describe_conditions(description, info.columns)
    if info.read_only:
        for path, routes in list(paths.items()):
            if path != TOKEN_CHECK:
                paths[path] = {name: route for name, route in routes.items() if "security" not in route}
        description["paths"] = {path: routes for path, routes in paths.items() if routes}


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    [kind] = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return {**kind, **{name: value for name, value in schema.items() if name not in ("anyOf", "default")}}


def _describe_conditions(description: dict[str, Any], columns: dict[str, str]) -> None:
    """What ``where`` looks like (`sihash.store.where`), if there are columns; else it stays out."""
    searches = [each for each in [description["components"]["schemas"].get("VectorSearch")] if each]
    routes = [route for path in description["paths"].values() for route in path.values()]
    if not columns:
        for route in routes:
            route["parameters"] = [each for each in route.get("parameters", ()) if each["name"] != "where"]
        for search in searches:
            del search["properties"]["where"]
        return
    number = r"[+-]?[0-9]+(\.[0-9]+)?"
    values = {"number": (r"(=|!=|<|<=|>|>=)", number, "1"), "text": (r"(=|!=|<|<=|>|>=)", "'[^']*'", "'red'")}
    values["true or false"] = (r"(=|!=)", "(true|false)", "true")
    conditions, examples = [], []
    for name, kind in columns.items():
        quoted = '"' + name.replace('"', '""') + '"'
        operator, value, example = values[kind]
        conditions.append(f"{re.escape(quoted)} {operator} {value}")
        examples.append(f"{quoted} = {example}")
    condition = f"({'|'.join(conditions)})"
    known = {
        "type": "string",
        "pattern": f"^{condition}( and {condition})*$",
        "examples": examples,
        "maxLength": 2000,
    }
    for search in searches:
        search["properties"]["where"] |= {"anyOf": [known, {"type": "null"}], "examples": examples}
    for route in routes:
        for parameter in route.get("parameters", ()):
            if parameter["name"] == "where":
                parameter["schema"] = known
