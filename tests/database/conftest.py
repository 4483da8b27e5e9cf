from __future__ import annotations

import pytest
import small
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Threads of the BLAS cost more than they bring on matrices of ten rows."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def folder():
    with small.fast_folder() as path:
        yield path


@pytest.fixture(scope="session")
def template():
    """A small database: 60 items in 3 classes, closed. Tests copy it."""
    with small.fast_folder() as path:
        small.make(path / "template").close()
        yield path / "template"


@pytest.fixture
def db(template, folder):
    """A copy of the template, open."""
    from sihash.database import Database

    with Database(small.copy(template, folder / "db")) as database:
        yield database
