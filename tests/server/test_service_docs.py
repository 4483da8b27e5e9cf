"""The examples of the pages about the service run, against a service of their own."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from services import TOKEN, running

from sihash.database import Database
from test_docs import WITH_A_SERVICE, of, runnable_blocks


def as_jpeg(png):
    file = io.BytesIO()
    Image.open(io.BytesIO(png)).save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize("page", sorted(WITH_A_SERVICE), ids=of)
def test_examples(page, digits, tmp_path, monkeypatch, capsys):
    """Their address and token become those of the service; two digits stand for the cats and the dogs."""
    monkeypatch.chdir(tmp_path)
    animals = {"0": "cat", "1": "dog"}
    files = [(as_jpeg(data), animals[label]) for data, label in digits if label in animals]
    (tmp_path / "query.jpg").write_bytes(files.pop()[0])
    (tmp_path / "cat.jpg").write_bytes(files.pop()[0])
    images, labels = zip(*files[:60], strict=True)
    Database.create("DB", images, labels, n_bits=16, n_anchors=30).close()
    with running(tmp_path / "DB") as service:
        for block in runnable_blocks(page):
            said = block.replace("http://127.0.0.1:8080", service.address).replace("5Qp…", TOKEN)
            assert service.address in said
            assert TOKEN in said
            exec(compile(said, page.name, "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 5, "five hits"
