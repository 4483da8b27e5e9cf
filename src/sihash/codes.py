"""Binary codes: ±1 matrices for learning, packed bytes at rest, Hamming distance between them.

A code of ``n_bits`` bits is packed into ``ceil(n_bits / 8)`` bytes, least significant bit first:
bit ``j`` is ``(byte[j // 8] >> (j % 8)) & 1``, set where the code is +1. FAISS' binary indexes count the
same way. The unused high bits of the last byte are zero, so the Hamming distance of packed codes is
that of the codes.
"""

from __future__ import annotations

import numpy as np

from sihash._typing import Array


def sign(scores: Array) -> Array:
    """The sign rule of the whole project, as int8: +1 where a score is ≥ 0, −1 below."""
    return np.where(scores >= 0, np.int8(1), np.int8(-1))


def n_bytes(n_bits: int) -> int:
    """How many bytes a packed code of ``n_bits`` bits takes."""
    return (n_bits + 7) // 8


def pack(B: Array) -> Array:
    """Pack codes of ±1 (n × n_bits) into uint8 (n × n_bytes).

    >>> import numpy as np
    >>> pack(np.array([[1, -1, -1, -1, -1, -1, -1, -1, 1]]))
    array([[1, 1]], dtype=uint8)
    """
    return np.packbits(np.asarray(B) > 0, axis=-1, bitorder="little")


def unpack(packed: Array, n_bits: int) -> Array:
    """Unpack uint8 codes into int8 ±1 (n × n_bits), the inverse of `pack`."""
    packed = np.asarray(packed)
    if packed.dtype != np.uint8 or packed.shape[-1] != n_bytes(n_bits):
        raise ValueError(
            f"Expected packed uint8 codes of {n_bytes(n_bits)} bytes for {n_bits} bits, "
            f"got {packed.dtype} with {packed.shape[-1]} columns; pack ±1 codes with sihash.codes.pack."
        )
    bits = np.unpackbits(packed, axis=-1, count=n_bits, bitorder="little")
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)


def hamming(P: Array, Q: Array) -> Array:
    """Hamming distances between all rows of two packed matrices, as uint16 (len(P) × len(Q)).

    >>> import numpy as np
    >>> hamming(np.array([[3]], np.uint8), np.array([[0], [1], [255]], np.uint8))
    array([[2, 1, 6]], dtype=uint16)
    """
    P, Q = np.atleast_2d(P), np.atleast_2d(Q)
    if P.dtype != np.uint8 or Q.dtype != np.uint8:
        raise ValueError(
            f"Expected packed uint8 codes, got {P.dtype} and {Q.dtype}; pack ±1 codes with sihash.codes.pack."
        )
    if P.shape[1] != Q.shape[1]:
        raise ValueError(
            f"Codes of {P.shape[1]} and {Q.shape[1]} bytes cannot be compared; use one code length."
        )
    return hamming_of_words(as_words(P), as_words(Q))


def hamming_of_words(P: Array, Q: Array) -> Array:
    """As `hamming`, of codes that `as_words` made: for those who ask the same codes again and again."""
    distances = np.zeros((len(P), len(Q)), dtype=np.uint16)
    for p, q in zip(P.T, Q.T, strict=True):
        distances += np.bitwise_count(p[:, None] ^ q[None, :])
    return distances


def as_words(packed: Array) -> Array:
    """Packed codes as uint64 words (n × n_words), padded with zero bytes: what fast loops count over."""
    packed = np.atleast_2d(np.asarray(packed, dtype=np.uint8))
    n, width = packed.shape
    padded = np.zeros((n, -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = packed
    return padded.view(np.uint64)
