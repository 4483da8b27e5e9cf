"""`sihash demo`: figures that hold together, a picture that shows what was found."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image, ImageColor
from typer.testing import CliRunner

from sihash.cli import app
from sihash.cli.demo_picture import WRONG, Row, draw


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run with --json: its result and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "not" / "there"
    return CliRunner().invoke(app, ["demo", "--json", "--out", str(folder)]), folder


@pytest.fixture(scope="module")
def figures(ran):
    result, _ = ran
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_codes_retrieve(figures):
    assert figures["n_train"] + figures["n_held_out"] == 1797
    assert figures["fit"]["mAP"] > 0.95
    assert figures["fit"]["precision_at_2"] > 0.9
    assert figures["fit"]["max_gap"] <= 0.01 + 1e-9


def test_update_learns_what_the_old_functions_do_not_know(figures):
    assert figures["passive"]["mAP"] < figures["incremental"]["mAP"] - 0.1
    assert figures["incremental"]["mAP"] > figures["from_scratch"]["mAP"] - 0.06
    assert figures["removed"]["mAP"] > 0.9


def test_words_go_to_stderr_beside_json(ran, figures):
    result, _ = ran
    assert "mean average precision" in result.stderr
    assert figures["picture"] in result.stderr


def test_picture(ran, figures):
    _, folder = ran
    assert figures["picture"] == str(folder / "neighbours.png")
    with Image.open(figures["picture"]) as picture:
        assert picture.format == "PNG"
        assert picture.width > 1000
        assert picture.height > 800


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "Error:" in result.stderr


def picture_of(is_right, found_code):
    image = np.zeros((8, 8), np.uint8)
    code = np.ones(8, np.int8)
    row = Row(image, "a 0", "", code, image[None], found_code[None], np.array([is_right]))
    return np.asarray(draw([row], "", "", ["nearest"]))


def has_red(picture):
    return bool((picture == ImageColor.getrgb(WRONG)).all(axis=2).any())


@pytest.mark.parametrize(("is_right", "n_off"), [(True, 0), (True, 1), (False, 0), (False, 3)])
def test_red_marks_wrong_images_and_differing_bits_only(is_right, n_off):
    found = np.ones(8, np.int8)
    found[:n_off] = -1
    assert has_red(picture_of(is_right, found)) == (not is_right or n_off > 0)
