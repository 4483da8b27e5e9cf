"""Model files: what is read is what was written, or an error; never anything between."""

import copy
import hashlib
import json
import os
import pickle
import stat

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from sihash import modelfile
from sihash.modelfile import ModelFileError

HEADER = {"kind": "test", "labels": ["a", 1, "ß", '"sha256":"'], "nested": {"x": [1.5, None, True]}}


def tensors():
    return {
        "W": np.arange(6, dtype=np.float32).reshape(2, 3),
        "codes": np.array([[7], [255]], dtype=np.uint8),
    }


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.sih"
    modelfile.write(path, HEADER, tensors())
    return path


def test_round_trip(path):
    header, read = modelfile.read(path)
    assert header == HEADER
    assert read.keys() == tensors().keys()
    for name, values in tensors().items():
        assert read[name].dtype == values.dtype
        np.testing.assert_array_equal(read[name], values)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(header=st.dictionaries(st.text(), json_values, max_size=4), seed=st.integers(0, 10**6))
@settings(max_examples=50)
def test_round_trip_of_any_header_and_arrays(header, seed, tmp_path_factory):
    rng = np.random.RandomState(seed)
    dtypes = (np.float32, np.float64, np.int8, np.uint8, np.int64, bool)
    arrays = {
        f"t{k}": rng.randint(0, 2, rng.randint(0, 4, rng.randint(4))).astype(t) for k, t in enumerate(dtypes)
    }
    path = tmp_path_factory.mktemp("any") / "model"
    modelfile.write(path, header, arrays)
    read_header, read = modelfile.read(path)
    assert read_header == header
    for name, values in arrays.items():
        assert read[name].dtype == values.dtype
        np.testing.assert_array_equal(read[name], values)


def test_arrays_that_are_views_are_written_as_they_look(tmp_path):
    values = np.arange(24, dtype=np.float64).reshape(4, 6)
    modelfile.write(tmp_path / "m", {}, {"t": values.T, "s": values[::2, 1::3]})
    _, read = modelfile.read(tmp_path / "m")
    np.testing.assert_array_equal(read["t"], values.T)
    np.testing.assert_array_equal(read["s"], values[::2, 1::3])


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x20, 0x80, 0xFF])
def test_every_altered_byte_is_noticed(path, mask):
    blob = path.read_bytes()
    for place in range(len(blob)):
        altered = bytearray(blob)
        altered[place] ^= mask
        path.write_bytes(altered)
        with pytest.raises(ModelFileError, match=path.name):
            modelfile.read(path)


def test_every_cut_and_every_addition_is_noticed(path):
    blob = path.read_bytes()
    for length in range(len(blob)):
        path.write_bytes(blob[:length])
        with pytest.raises(ModelFileError):
            modelfile.read(path)
    for more in (b"\0", b" ", blob):
        path.write_bytes(blob + more)
        with pytest.raises(ModelFileError):
            modelfile.read(path)


@given(junk=st.binary(max_size=200))
def test_junk_is_refused(junk, tmp_path_factory):
    path = tmp_path_factory.mktemp("junk") / "model"
    path.write_bytes(junk)
    with pytest.raises(ModelFileError):
        modelfile.read(path)


def with_header(path, header):
    """A file with this text in the place of the safetensors header."""
    path.write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"null",
        b"{}",
        b'{"__metadata__": []}',
        b'{"__metadata__": "sihash/1"}',
        b'{"__metadata__": {"format": 1}}',
        b'{"__metadata__": {"format": "sihash/1"}}',
        b'{"__metadata__": {"format": "sihash/1", "sha256": "0", "header": "{}"}}',
        '{"__metadata__": {"format": "sihash/²"}}'.encode(),
        b'{"__metadata__": {"format": "sihash/' + b"9" * 5000 + b'"}}',
        b"[" * 100_000,
    ],
)
def test_made_up_headers_are_refused(tmp_path, header):
    with_header(tmp_path / "model", header)
    with pytest.raises(ModelFileError, match="model"):
        modelfile.read(tmp_path / "model")


def test_what_a_file_lacks_is_told_in_a_sentence(path):
    """In the header at any depth, among the tensors, and in a copy that some hasher keeps."""
    header, read = modelfile.read(path)
    for entries in (header, header["nested"], read, copy.deepcopy(read), pickle.loads(pickle.dumps(header))):
        with pytest.raises(ModelFileError, match=r"model\.sih is not .*: it lacks 'width'\.$"):
            entries["width"]
        assert entries.get("width") is None
        assert "width" not in entries


def sealed(path, metadata, tensors):
    """A file with the right digest, whatever it holds."""
    metadata = {"format": "sihash/1", "sha256": "0" * 64, **metadata}
    with_header(path, json.dumps({"__metadata__": metadata, **tensors}, separators=(",", ":")).encode())
    blob = path.read_bytes()
    path.write_bytes(blob.replace(b"0" * 64, hashlib.sha256(blob).hexdigest().encode()))


@pytest.mark.parametrize(
    ("metadata", "tensors"),
    [
        ({}, {}),
        ({"header": "no JSON"}, {}),
        ({"header": "[]"}, {}),
        ({"header": "[" * 100_000}, {}),
        ({"header": 7}, {}),
        ({"header": "{}"}, {"W": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),
        ({"header": "{}"}, {"W": {"dtype": "none", "shape": [0], "data_offsets": [0, 0]}}),
        ({"header": "{}"}, {"W": 1}),
    ],
)
def test_a_right_digest_excuses_nothing(tmp_path, metadata, tensors):
    sealed(tmp_path / "model", metadata, tensors)
    with pytest.raises(ModelFileError, match=r"model is not a model file that sihash wrote"):
        modelfile.read(tmp_path / "model")


def test_a_safetensors_file_of_someone_else_is_named_as_such(tmp_path):
    safetensors.numpy.save_file(tensors(), tmp_path / "plain")
    with pytest.raises(ModelFileError, match="not a sihash model file"):
        modelfile.read(tmp_path / "plain")
    safetensors.numpy.save_file(tensors(), tmp_path / "other", metadata={"format": "pt"})
    with pytest.raises(ModelFileError, match="not one that sihash wrote"):
        modelfile.read(tmp_path / "other")


def test_a_newer_format_asks_for_a_newer_sihash(tmp_path):
    newer = {"format": f"sihash/{modelfile.VERSION + 1}", "header": "{}", "sha256": "0" * 64}
    safetensors.numpy.save_file(tensors(), tmp_path / "model", metadata=newer)
    with pytest.raises(
        ModelFileError, match="has format 2, this sihash reads up to 1; install a newer sihash"
    ):
        modelfile.read(tmp_path / "model")


def test_other_tools_read_the_tensors(path):
    loaded = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(loaded["W"], tensors()["W"])


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch, call):
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="disk full"):
        modelfile.write(path, {"new": True}, {"W": np.zeros(1000)})
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_header_that_json_cannot_hold_leaves_the_old_file_and_nothing_else(path):
    before = path.read_bytes()
    with pytest.raises(TypeError):
        modelfile.write(path, {"bad": object()}, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_write_replaces_the_old_file_and_leaves_nothing_else(path):
    modelfile.write(path, {"new": True}, {"W": np.zeros(2)})
    assert modelfile.read(path)[0] == {"new": True}
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="file modes are those of POSIX")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        modelfile.write(tmp_path / "model", {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o666 & ~umask


def test_a_missing_file_or_folder_is_said_as_such(tmp_path):
    with pytest.raises(FileNotFoundError):
        modelfile.read(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        modelfile.write(tmp_path / "no folder" / "model", {}, {})


def test_the_layout_is_as_documented(path):
    blob = path.read_bytes()
    length = int.from_bytes(blob[:8], "little")
    metadata = json.loads(blob[8 : 8 + length])["__metadata__"]
    assert metadata.keys() == {"format", "header", "sha256"}
    assert metadata["format"] == "sihash/1"
    assert json.loads(metadata["header"]) == HEADER
