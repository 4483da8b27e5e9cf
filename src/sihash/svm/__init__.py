"""Maximum-margin solvers. They know nothing of hashing."""

from sihash.svm.binary import solve_binary
from sihash.svm.multiclass import MulticlassSolution, solve_multiclass
from sihash.svm.svm_state import Solution, SVMs

__all__ = ["MulticlassSolution", "SVMs", "Solution", "solve_binary", "solve_multiclass"]
