"""Services that end, one way or the other, leave nothing that the next start does not clear away."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from services import running, wait_until

from sihash.database import Database
from sihash.server.run_folder import IN_USE, PREFIX, hold, run_folder, sweep


@pytest.fixture
def shared(tmp_path, monkeypatch) -> Path:
    """Where services put their folders: a place without those of others."""
    (tmp_path / "shared").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "shared"))
    return tmp_path / "shared"


@pytest.fixture
def copy(vector_template, tmp_path) -> Path:
    return shutil.copytree(vector_template, tmp_path / "vectors")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_is_told_to_stop_leaves_nothing(shared, copy, workers):
    with running(copy, "--workers", workers) as service:
        assert len(list(shared.iterdir())) == 1
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0
        assert list(shared.iterdir()) == []


def test_what_a_killed_service_leaves_is_swept_by_the_next(shared, copy):
    """Its folder; and its workers end, so that the address is free."""
    with running(copy, "--workers", "2") as first:
        [left] = shared.iterdir()
        first.process.kill()
        first.process.wait()
    wait_until(lambda: not is_locked(left / IN_USE))  # the workers notice that nobody needs them
    with running(copy, port=first.port):
        [now] = shared.iterdir()
        assert now != left


def is_locked(path: Path) -> bool:
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_folders_in_use_and_those_of_others_stay(shared):
    (shared / "sihash-of-a-test").mkdir()
    (shared / f"{PREFIX}without-a-lock").mkdir()  # of a service that starts right now
    with ExitStack() as stack:
        running_one = Path(stack.enter_context(run_folder()))
        updating = shared / f"{PREFIX}updating"  # its service was killed, its update goes on
        updating.mkdir()
        (updating / IN_USE).touch()
        update = stack.enter_context(open(updating / "update.lock", "w"))
        fcntl.flock(update, fcntl.LOCK_EX)
        with run_folder():
            assert running_one.exists()
            assert updating.exists()
        update.close()
        worker = hold(str(updating))
        sweep(shared)
        assert updating.exists()
        os.close(worker)
        sweep(shared)
        assert running_one.exists()
        assert not updating.exists()
    assert sorted(path.name for path in shared.iterdir()) == ["sihash-of-a-test", f"{PREFIX}without-a-lock"]


def test_an_update_outlives_a_killed_service(shared, copy):
    """It commits its version; the folder of the service stays until then."""
    with Database(copy) as database:
        version = database.version
        with running(copy) as service, service.client() as client:
            client.start_update("relearn")
            service.process.kill()
            service.process.wait()
        [left] = shared.iterdir()
        sweep(shared)
        assert left.exists()  # the update needs it
        wait_until(lambda: database.version == version + 1)
        assert database.verify() == []
    wait_until(lambda: not any(is_locked(lock) for lock in left.glob("*.lock")))
    sweep(shared)
    assert not left.exists()
