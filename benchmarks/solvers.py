"""The binary SVMs of 32 bits beside scikit-learn's LinearSVC, and both solvers beside each other.

``python -m benchmarks.solvers`` takes CIFAR-10 GIST (50,000 × 1,000 anchors × 32 bits, C = 16, σ = 0.8), or
made data of that size with ``--made``. LinearSVC is timed on a few bits, each until its primal is within 1
% of ours, and multiplied. Only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from sihash._typing import Array
from sihash.hashing.words import first_words
from sihash.kernel_fit import fit_kernel_map
from sihash.research import data as research_data
from sihash.svm import Solution, solve_binary

N_BITS = 32
MAX_ITER = 600  # of LinearSVC: a minute and a half a bit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--made", action="store_true", help="made data, where CIFAR-10 is not at hand")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--anchors", type=int, default=1000)
    parser.add_argument("--C", type=float, default=16.0)
    parser.add_argument("--width", type=float, default=0.8)
    parser.add_argument("--bits-timed", type=int, default=2, help="bits that LinearSVC is timed on")
    parser.add_argument("--ocas", action="store_true", help="OCAS too (about a minute)")
    args = parser.parse_args()
    X, y = made_rows(args.rows) if args.made else cifar_rows(args.rows)
    rng = np.random.RandomState(0)
    Phi = fit_kernel_map(X, y, args.anchors, "random", args.width, rng)(X)
    Y = first_words("separated", N_BITS, np.bincount(y), True, rng)[y]
    solve_binary(Phi[::50], Y[::50], args.C)  # compiled kernels are loaded outside the timer
    smooth, seconds = report("smooth", Phi, Y, args.C)
    if args.ocas:
        ocas, _ = report("ocas", Phi, Y, args.C)
        excess = smooth.upper - ocas.lower
        print(
            f"smooth is proved to be within {100 * np.max(excess / smooth.upper):.2f} % of the optimum; "
            f"it expected {100 * smooth.gap.max():.2f} %"
        )
    compare_with_liblinear(Phi, Y, args.C, smooth, seconds, args.bits_timed)


def cifar_rows(n: int) -> tuple[Array, Array]:
    data = research_data.load("cifar10", features="gist")
    step = len(data.X_train) // n
    return data.X_train[::step], data.y_train[::step]


def made_rows(n: int) -> tuple[Array, Array]:
    """Ten overlapping classes in 512 dimensions, each of several clusters."""
    rng = np.random.RandomState(0)
    centres = rng.normal(size=(10, 20, 512)) * 0.25
    y = rng.randint(0, 10, n)
    return (centres[y, rng.randint(0, 20, n)] + rng.normal(size=(n, 512)) * 0.5).astype(np.float32), y


def report(method: str, Phi: Array, Y: Array, C: float) -> tuple[Solution, float]:
    """The solution, and the seconds that it took."""
    start = time.perf_counter()
    solution = solve_binary(Phi, Y, C, tol=0.01, method=method)
    seconds = time.perf_counter() - start
    print(
        f"{method}: {N_BITS} bits in {seconds:.2f} s, {solution.n_steps.mean():.1f} steps on average, "
        f"{solution.n_steps.max()} at most, widest "
        f"{'proved' if solution.is_proved else 'estimated'} gap {100 * solution.gap.max():.2f} %",
        flush=True,
    )
    return solution, seconds


def compare_with_liblinear(
    Phi: Array, Y: Array, C: float, ours: Solution, our_seconds: float, n_bits: int
) -> None:
    """LinearSVC on a few bits, to its own end or ``max_iter``: on the way its primal goes up and down."""
    seconds, reached = [], True
    for j in np.linspace(0, N_BITS - 1, n_bits).astype(int):
        svc = LinearSVC(loss="hinge", C=C, fit_intercept=False, max_iter=MAX_ITER, random_state=0)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svc.fit(Phi, Y[:, j])
        seconds.append(time.perf_counter() - start)
        w = svc.coef_[0]
        primal = 0.5 * w @ w + C * np.maximum(0, 1 - Y[:, j] * (Phi @ w)).sum()
        reached &= bool(primal <= 1.01 * ours.upper[j])
        print(
            f"  LinearSVC, bit {j}: {seconds[-1]:.1f} s, {svc.n_iter_} iterations, objective "
            f"{primal / ours.upper[j]:.4f} of ours",
            flush=True,
        )
    total = N_BITS * float(np.mean(seconds))
    ratio = total / our_seconds
    word = "about" if reached else "more than (it did not get within 1 %)"
    print(f"LinearSVC, all {N_BITS} bits: {word} {total:.0f} s, {ratio:.0f} times as long")


if __name__ == "__main__":
    main()
