"""Files are whole or not there, and what killed writers leave behind goes with the next writing."""

from __future__ import annotations

import signal
import subprocess
import sys

from sihash.store.atomic_file import whole_file

WRITER = """
import sys, time
from pathlib import Path
from sihash.store.atomic_file import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def start_writing(path):
    """A process in the middle of writing a file."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_next_writing_deletes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "items [1].npz"
    (tmp_path / ".items [1].npz.0badf00d").write_bytes(b"of somebody else")
    killed = start_writing(path)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(names(tmp_path)) == 2
    with whole_file(path) as file:
        file.write(b"whole")
    assert names(tmp_path) == [".items [1].npz.0badf00d", path.name]
    assert path.read_bytes() == b"whole"


def test_two_who_write_the_same_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "items.npz"
    other = start_writing(path)
    try:
        with whole_file(path) as file, whole_file(path) as again:
            file.write(b"first")
            again.write(b"second")
        assert path.read_bytes() == b"first"
        assert len(names(tmp_path)) == 2  # that of the other process, which still writes
    finally:
        other.kill()
        other.wait()
    with whole_file(path):
        pass
    assert names(tmp_path) == [path.name]


def test_an_export_that_was_killed_leaves_nothing_after_the_next(tmp_path):
    import numpy as np

    from sihash.database import Database

    X = np.random.default_rng(0).normal(size=(300, 64)).astype(np.float32)
    Database.create(tmp_path / "db", X, np.arange(300) % 3, n_bits=8, n_anchors=9).close()
    out = tmp_path / "out"
    out.mkdir()
    code = (
        "import sys, time, numpy; numpy.savez = lambda file, **_: (file.write(b'half'), file.flush(), "
        "print('writing', flush=True), time.sleep(600)); from sihash.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "export", str(tmp_path / "db"), str(out / "items.npz")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    process.kill()
    process.wait()
    assert len(names(out)) == 1
    with Database(tmp_path / "db") as db:
        db.export(out / "items.npz")
    assert names(out) == ["items.npz"]
