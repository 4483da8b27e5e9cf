"""The numbers that the paper prints: its Table 1, CIFAR-10 at 32 bits. Its figures have no numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrintedRow:
    """A row of Table 1. ``n_anchors`` is None for methods without anchors."""

    method: str
    n_train: int
    n_anchors: int | None
    mAP: float
    precision_at_2: float
    train_seconds: float
    test_microseconds: float


TABLE_1 = (
    PrintedRow("sih", 5_000, 300, 0.322, 0.383, 2.7, 6.1),
    PrintedRow("sih", 5_000, 1_000, 0.366, 0.420, 7.5, 15.9),
    PrintedRow("sih", 5_000, 3_000, 0.393, 0.438, 47.3, 45.7),
    PrintedRow("sih", 50_000, 300, 0.360, 0.417, 61.7, 6.3),
    PrintedRow("sih", 50_000, 1_000, 0.429, 0.478, 171.1, 17.7),
    PrintedRow("sdh", 50_000, 1_000, 0.422, 0.478, 25.0, 24.9),
    PrintedRow("fasthash", 50_000, None, 0.357, 0.271, 628.4, 102.6),
    PrintedRow("ksh", 5_000, 1_000, 0.343, 0.322, 2802.8, 26.8),
    PrintedRow("cca_itq", 50_000, None, 0.325, 0.410, 1.5, 3.8),
)
MACHINE = "Intel Core i7, four cores, 2.8 GHz, MATLAB"


def printed(data: str, method: str, n_train: int, n_anchors: int | None) -> PrintedRow | None:
    """The paper's row for a measurement of ours, if it prints one."""
    if data != "cifar10":
        return None
    method = "sih" if method == "sih_preset" else method
    rows = [r for r in TABLE_1 if (r.method, r.n_train, r.n_anchors) == (method, n_train, n_anchors)]
    return rows[0] if rows else None
