"""docs/recipes.md: the files that its blocks write hold what the other systems are to find."""

from __future__ import annotations

import json
import re
import uuid

import numpy as np
import pytest

from sihash.database import Database
from test_docs import ROOT, runnable_blocks


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder in which the blocks have run, and the database that they made."""
    folder, names = tmp_path_factory.mktemp("recipes"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in runnable_blocks(ROOT / "docs" / "recipes.md"):
            exec(compile(block, "recipes.md", "exec"), names)
    with Database(folder / "shop") as db:
        yield folder, {item.id: item for item in db.items(limit=2000)}


def bits(code):
    return np.unpackbits(np.frombuffer(code, np.uint8), bitorder="little")


def test_qdrant(made):
    folder, items = made
    size = json.loads((folder / "qdrant-collection.json").read_text())["vectors"]["size"]
    points = json.loads((folder / "qdrant-points.json").read_text())["points"]
    assert {point["payload"]["id"] for point in points} == set(items)
    assert len({uuid.UUID(point["id"]) for point in points}) == len(items)
    for point in points:
        item = items[point["payload"]["id"]]
        assert point["vector"] == (2 * bits(item.code)[:size].astype(int) - 1).tolist()
        assert point["payload"] == {"id": item.id, "label": item.label, **item.columns}


def test_pgvector(made):
    folder, items = made
    text = (folder / "shop.sql").read_text()
    width = int(re.search(r"code bit\((\d+)\)", text)[1])
    rows = re.findall(r"\('([^']*)', (-?\d+), (-?\d+), B'([01]+)'\)", text)
    assert {row[0] for row in rows} == set(items)
    for own, label, price, written in rows:
        item = items[own]
        assert (int(label), int(price)) == (item.label, item.columns["price"])
        assert written == "".join(bits(item.code)[:width].astype(str))


def test_faiss(made):
    faiss = pytest.importorskip("faiss")
    folder, items = made
    index = faiss.read_index_binary(str(folder / "shop.faiss"))
    assert index.ntotal == len(items)
    codes = np.array([np.frombuffer(item.code, np.uint8) for item in items.values()])
    assert (index.search(codes, 1)[0] == 0).all()
