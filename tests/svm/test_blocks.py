"""Blocks: nothing is lost, nothing is counted twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sihash.svm.blocks import Block, RowBlocks
from sihash.svm.settings import BLOCK_ROWS


def numbered_block(n, room=0):
    """Row ``i`` holds ``i`` in every array, so that a row can be recognised and its arrays compared."""
    number = np.arange(n + room)
    return Block(n, Phi=np.column_stack([number, number]).astype(np.float32), Y=number[:, None].copy())


def rows_of(block):
    np.testing.assert_array_equal(block["Phi"][:, 0], block["Y"][:, 0])
    return block["Y"][:, 0].tolist()


@pytest.mark.parametrize("n", [1, 2, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 7])
def test_of_covers_all_rows_in_order_without_copying(n):
    Phi = np.arange(n, dtype=np.float32)[:, None]
    rows = RowBlocks.of(Phi, Y=Phi.astype(np.int64))
    assert len(rows) == n
    np.testing.assert_array_equal(rows.column("Phi"), Phi)
    np.testing.assert_array_equal(rows.column("Y"), Phi)
    assert all(np.shares_memory(block["Phi"], Phi) for block in rows)


@given(st.data())
@settings(max_examples=100)
def test_drop_takes_exactly_these_rows_and_keeps_arrays_together(data):
    n = data.draw(st.integers(1, 30))
    gone = data.draw(st.lists(st.integers(0, n - 1), unique=True))
    block = numbered_block(n, room=3)
    before = block.copy()
    block.drop(np.array(gone, dtype=np.intp))
    assert sorted(rows_of(block)) == sorted(set(range(n)) - set(gone))
    assert sorted(rows_of(before)) == list(range(n)), "a copy made before still holds every row"
    unmoved = [i for i in range(block.n) if i not in gone]
    assert [rows_of(block)[i] for i in unmoved] == unmoved, "only holes are filled"


@given(st.data())
@settings(max_examples=100)
def test_any_sequence_of_drops_and_appends_is_a_list_of_rows(data):
    block, expected, fresh = numbered_block(5, room=10), list(range(5)), 100
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            k = data.draw(st.integers(0, block.room))
            number = np.arange(fresh, fresh + k)
            fresh += k
            block.append({"Phi": np.column_stack([number, number]), "Y": number[:, None]})
            expected += number.tolist()
        elif expected:
            gone = data.draw(st.lists(st.integers(0, len(expected) - 1), unique=True))
            lost = {rows_of(block)[i] for i in gone}
            block.drop(np.array(gone, dtype=np.intp))
            expected = [row for row in expected if row not in lost]
        assert sorted(rows_of(block)) == sorted(expected)
        assert block.n + block.room == 15


def test_a_copy_grows_without_the_original_noticing():
    block = numbered_block(4, room=2)
    twin = block.copy()
    twin.append({"Phi": np.full((2, 2), 9.0), "Y": np.full((2, 1), 9)})
    assert rows_of(twin) == [0, 1, 2, 3, 9, 9]
    assert rows_of(block) == [0, 1, 2, 3]


def test_more_rows_than_room_are_refused_and_change_nothing():
    block = numbered_block(4, room=1)
    with pytest.raises(ValueError):
        block.append({"Phi": np.zeros((2, 2)), "Y": np.zeros((2, 1))})
    assert rows_of(block) == [0, 1, 2, 3]


def test_total_adds_up_in_float64_whatever_the_blocks_return():
    rows = RowBlocks([numbered_block(n) for n in (3, 1, 4)])
    total, count = rows.total(lambda block, k: (k * block["Phi"].sum(axis=0), np.array([block.n])), 2)
    np.testing.assert_array_equal(total, [2 * 9, 2 * 9])
    np.testing.assert_array_equal(count, [8])
    assert total.dtype == np.float64
    ones = RowBlocks([numbered_block(1) for _ in range(3)])
    values = iter(np.float32([[1e8], [1], [1]]))
    assert ones.total(lambda block: (next(values),))[0] == 1e8 + 2


def test_blocks_with_nothing_to_add_are_left_out_of_a_total():
    rows = RowBlocks([numbered_block(n) for n in (3, 1)])
    (total,) = rows.total(lambda block: None if block.n == 1 else (np.array([block.n]),))
    assert total == 3
    assert rows.total(lambda block: None) == []


class Doubled:
    """A feature map that counts the rows that it was asked for."""

    n_features_out = 2

    def __init__(self):
        self.n_rows = 0

    def __call__(self, X, out=None):
        self.n_rows += len(X)
        out = np.empty((len(X), 2), np.float32) if out is None else out
        out[:] = X
        return out


def test_features_are_made_when_all_are_asked_for():
    number, double = np.arange(6), Doubled()
    block = Block(4, double, X=np.repeat(number, 2).reshape(6, 2), Y=number[:, None].copy())
    assert block.n_features == 2
    np.testing.assert_array_equal(block.features(np.array([2, 0]))[:, 0], [2, 0])
    assert not block.has_features
    assert double.n_rows == 2
    later = {"X": np.full((1, 2), 4), "Y": np.array([[4]]), "Phi": np.full((1, 2), 4)}
    block.append(later)
    before = block.copy()
    block.drop(np.array([1]))
    assert sorted(rows_of(block)) == [0, 2, 3, 4]
    assert double.n_rows == 6
    assert sorted(rows_of(before)) == [0, 1, 2, 3, 4], "each view makes its own, in its own order"
    block["Phi"]
    assert double.n_rows == 11, "once made, they stay"
