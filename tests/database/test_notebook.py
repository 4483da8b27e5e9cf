"""What a notebook shows: tables, a database in a few words, bars, pictures."""

from __future__ import annotations

import json
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
import small

from sihash.database import Database
from sihash.database.answers import ClassEvaluation, Confusion, Evaluation

matplotlib.use("Agg")

X, Y = small.rows(60, seed=0)


def test_answers_and_items_are_tables(db):
    answers = db.search(X[:3], k=4)
    for frame in (answers.to_pandas(), answers.to_arrow().to_pandas()):
        assert list(frame) == [
            "query",
            "place",
            "id",
            "label",
            "score",
            "distance",
            "name",
            "price",
            "colour",
        ]
        assert len(frame) == 12
        for (number, place), row in frame.set_index(["query", "place"]).iterrows():
            hit = answers[number].hits[place - 1]
            assert (row.id, row.label, row.distance, row["name"]) == (
                hit.id,
                hit.label,
                hit.distance,
                hit.name,
            )
            assert row.score == pytest.approx(hit.score)
            assert {n: row[n] for n in ("price", "colour") if not pd.isna(row[n])} == hit.columns
    assert answers[0].to_pandas().id.tolist() == [hit.id for hit in answers[0].hits]
    assert db.search_ids(3, k=4).to_pandas()["query"].tolist() == [0] * 4
    assert db.search(np.empty((0, small.WIDTH)), k=1).to_pandas().empty
    items = db.items(limit=5)
    assert items.to_arrow().to_pylist()[1] == {
        "id": 1,
        "label": 1,
        "name": "row 1",
        "version": 1,
        "price": 0.5,
        "colour": "blue",
    }
    assert db.sample(7).to_pandas().id.is_unique


def test_a_table_of_ids_and_labels_of_two_kinds(folder):
    columns = {"id": ["x"] * 6, "price": range(6)}
    labels = [["a", 1], [1], [], ["a"], ["a"], [1]]
    with Database.create(
        folder / "db", X[:6], labels, ids=["a", *range(1, 6)], columns=columns, **small.PARAMS
    ) as db:
        frame = db.items().to_pandas()
        assert list(frame) == ["id", "labels", "name", "version", "column.id", "price"]
        assert frame.id.tolist() == ["a", 1, 2, 3, 4, 5]
        assert frame.labels[0] == [1, "a"]
        rows = db.items().to_arrow().to_pylist()
        assert (rows[0]["labels"], rows[1]["id"], rows[2]["labels"]) == (["1", "a"], "1", [])


def test_a_database_in_a_few_words(db):
    line = repr(db)
    assert "60 items in 3 classes, 8 bits of vectors of 8 numbers, version 1, no changes to learn" in line
    assert str(db.path) in line
    html = db._repr_html_()
    assert "Version 1, made 20" in html
    assert "db.evaluate()" in html
    db.add(X[:2] + 0.1, ["<b>new</b>"] * 2)
    assert "62 items in 4 classes" in repr(db)
    html = db._repr_html_()
    assert "&lt;b&gt;new&lt;/b&gt;" in html
    assert "2 items came, went or were relabelled since: db.update()" in html
    db.update()
    assert "Version 2, last update 20" in db._repr_html_()
    db.close()
    assert "This database is closed" in repr(db)


def test_reports_are_lines_and_not_pages(folder):
    with Database.create(folder / "db", X, Y, **small.PARAMS) as db:
        assert repr(db.created_).startswith("AddReport(version=1, added=[0, 1, 2, … 60 in all], skipped=[]")
        assert "… 60 in all]" in repr(db.map())
        assert len(repr(db.remove(range(50)))) < 100
        assert db.search(X[:2], k=2)._repr_html_().count("<figure") == 4
        table = db.items()._repr_html_()
        assert (table.count("<tr>"), "<td>row 50</td>" in table) == (11, True)


def test_bars_in_a_notebook(folder, monkeypatch):
    """What the kernel of a notebook is sent: one output, changed as the work goes on."""
    import IPython
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.kernel = None
    sent = []
    monkeypatch.setattr(shell.display_pub, "publish", lambda data, **about: sent.append((data, about)))
    try:
        assert IPython.get_ipython() is shell
        Database.create(folder / "db", X, Y, **small.PARAMS).close()
    finally:
        InteractiveShell.clear_instance()
    assert len({about["transient"]["display_id"] for _, about in sent}) == 1
    assert [about.get("update", False) for _, about in sent[:2]] == [False, True]
    last = sent[-1][0]["text/html"]
    assert [phase in last for phase in ("reading", "learning", "encoding")] == [True] * 3
    Database(folder / "db").add(X[:2], Y[:2])  # outside a notebook nothing is shown


def test_pictures(db):
    drawn = db.map()
    axes = drawn.plot()
    assert axes.collections[0].get_offsets().shape == (60, 2)
    assert {text.get_text() for text in axes.texts} == {"0", "1", "2"}
    classes = [ClassEvaluation(f"c{k}", 5, k / 10, k / 10, k / 10, n_items=2**k) for k in range(8)]
    evaluation = Evaluation(1, "combined", 0.5, 0.5, 0.5, 40, 0, 255, classes)
    axes = evaluation.plot()
    np.testing.assert_allclose(axes.collections[0].get_offsets()[:, 0], [2**k for k in range(8)])
    assert [each.n_items for each in db.evaluate().classes] == [20, 20, 20]
    confused = [Confusion("cat", 3, [1, 2, 3]), Confusion("dog", 1, [4])]
    bars = replace(evaluation, classes=[replace(classes[0], confused=confused)]).plot_confused().patches
    assert [bar.get_width() for bar in bars] == [1, 3]
    db.add(*small.rows(10, seed=3, classes=4))
    report = db.update()
    bars = report.plot().patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], list(report.compared.values()))
    assert json.dumps(report.compared)
