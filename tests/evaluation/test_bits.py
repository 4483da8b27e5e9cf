"""Statistics of bits against numpy and by hand."""

import numpy as np
import pytest

from sihash import codes as codes_module
from sihash.evaluation import bit_statistics, bits


def test_by_hand():
    # bit 0 is constant, bits 1 and 2 are opposite
    B = np.array([[1, 1, -1], [1, -1, 1], [1, 1, -1], [1, -1, 1]])
    s = bit_statistics(codes_module.pack(B), 3)
    assert s.balance.tolist() == [1, 0.5, 0.5]
    assert s.correlation == pytest.approx(np.array([[1, 0, 0], [0, 1, -1], [0, -1, 1]]))
    assert s.mean_imbalance == pytest.approx(1 / 3)
    assert s.mean_correlation == pytest.approx(1 / 3)


def test_equals_numpy_in_any_blocks(monkeypatch):
    B = np.where(np.random.default_rng(0).random((500, 13)) < 0.3, 1, -1)
    monkeypatch.setattr(bits, "UNPACKED_ROWS", 64)
    s = bit_statistics(codes_module.pack(B), 13)
    assert s.correlation == pytest.approx(np.corrcoef(B.T))
    assert s.balance == pytest.approx((B > 0).mean(axis=0))


def test_one_bit_and_no_code():
    assert bit_statistics(codes_module.pack(np.ones((4, 1))), 1).mean_correlation == 0
    with pytest.raises(ValueError, match="at least one code"):
        bit_statistics(np.empty((0, 1), np.uint8))
