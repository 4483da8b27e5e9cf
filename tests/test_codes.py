"""Codes: packing and Hamming distance against naive twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sihash import codes


def random_codes(seed, n, n_bits):
    return np.random.RandomState(seed).choice([-1, 1], (n, n_bits)).astype(np.int8)


@given(seed=st.integers(0, 10**6), n=st.integers(0, 5), n_bits=st.integers(1, 200))
def test_unpack_undoes_pack(seed, n, n_bits):
    B = random_codes(seed, n, n_bits)
    packed = codes.pack(B)
    assert packed.dtype == np.uint8
    assert packed.shape == (n, codes.n_bytes(n_bits))
    back = codes.unpack(packed, n_bits)
    assert back.dtype == np.int8
    np.testing.assert_array_equal(back, B)


@given(seed=st.integers(0, 10**6), n_bits=st.integers(1, 100))
def test_bit_order_and_unused_bits_are_as_documented(seed, n_bits):
    (code,), (packed,) = (B := random_codes(seed, 1, n_bits)), codes.pack(B)
    for j in range(8 * len(packed)):
        bit = (packed[j // 8] >> (j % 8)) & 1
        assert bit == (j < n_bits and code[j] == 1)


@given(seed=st.integers(0, 10**6), n_bits=st.integers(1, 200), n=st.integers(0, 6), m=st.integers(0, 6))
def test_hamming_counts_the_bits_that_differ(seed, n_bits, n, m):
    A, B = random_codes(seed, n, n_bits), random_codes(seed + 1, m, n_bits)
    P, Q = codes.pack(A), codes.pack(B)
    distances = codes.hamming(P, Q)
    assert distances.dtype == np.uint16
    np.testing.assert_array_equal(distances, (A[:, None] != B[None]).sum(axis=2))
    np.testing.assert_array_equal(distances, np.bitwise_count(P[:, None] ^ Q[None]).sum(axis=2))


def test_laws_of_a_distance():
    P = codes.pack(random_codes(0, 20, 37))
    D = codes.hamming(P, P).astype(int)
    assert not np.diag(D).any()
    np.testing.assert_array_equal(D, D.T)
    assert np.all(D[:, :, None] <= D[:, None, :] + D.T[None])


def test_long_codes_do_not_overflow():
    """More than 255 bits apart, and more than 65,000 bits in one code."""
    for n_bits in (256, 300, 65_000):
        P = codes.pack(np.ones((1, n_bits)))
        assert codes.hamming(P, codes.pack(-np.ones((1, n_bits))))[0, 0] == n_bits


def test_one_code_is_a_matrix_of_one_row():
    P = codes.pack(random_codes(0, 3, 20))
    np.testing.assert_array_equal(codes.hamming(P[0], P), codes.hamming(P[:1], P))


@given(seed=st.integers(0, 10**6), n_bytes=st.integers(1, 20))
def test_words_are_the_bytes_and_zeros(seed, n_bytes):
    packed = np.random.RandomState(seed).randint(0, 256, (4, n_bytes)).astype(np.uint8)
    as_bytes = codes.as_words(packed).view(np.uint8)
    np.testing.assert_array_equal(as_bytes[:, :n_bytes], packed)
    assert not as_bytes[:, n_bytes:].any()


def test_layouts_in_memory_do_not_matter():
    P = codes.pack(random_codes(0, 12, 40))
    np.testing.assert_array_equal(codes.hamming(np.asfortranarray(P), P[::2]), codes.hamming(P, P)[:, ::2])


def test_the_sign_of_zero_is_plus():
    scores = np.array([0.0, -0.0, 1e-300, -1e-300, 5, -5])
    signs = codes.sign(scores)
    np.testing.assert_array_equal(signs, [1, 1, 1, -1, 1, -1])
    assert signs.dtype == np.int8


def test_codes_of_the_wrong_kind_are_refused():
    with pytest.raises(ValueError, match="2 bytes for 9 bits, got uint8 with 1 columns"):
        codes.unpack(np.zeros((3, 1), np.uint8), 9)
    with pytest.raises(ValueError, match="pack ±1 codes with"):
        codes.unpack(np.ones((3, 2), np.int8), 16)
    with pytest.raises(ValueError, match="1 and 2 bytes"):
        codes.hamming(np.zeros((3, 1), np.uint8), np.zeros((3, 2), np.uint8))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64, bool])
def test_hamming_refuses_codes_that_are_not_packed(dtype):
    """Else ±1 codes would be counted as bytes, and a distance of 1 come out as 7."""
    B = random_codes(0, 3, 8).astype(dtype)
    with pytest.raises(ValueError, match="pack"):
        codes.hamming(B, B)
