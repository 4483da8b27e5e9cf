"""Maximum-margin solvers. They know nothing of hashing."""

from typing import TYPE_CHECKING

from sihash._lazy import lazy_attributes

if TYPE_CHECKING:
    from sihash.svm.binary import solve_binary
    from sihash.svm.multiclass import MulticlassSolution, solve_multiclass
    from sihash.svm.svm_state import Solution, SVMs

__all__ = ["MulticlassSolution", "SVMs", "Solution", "solve_binary", "solve_multiclass"]

# Searches need `blocks` of it, for what they share with learning, and not the solvers' compiled loops.
__getattr__ = lazy_attributes(
    __name__,
    {
        "MulticlassSolution": "sihash.svm.multiclass",
        "SVMs": "sihash.svm.svm_state",
        "Solution": "sihash.svm.svm_state",
        "solve_binary": "sihash.svm.binary",
        "solve_multiclass": "sihash.svm.multiclass",
    },
)
