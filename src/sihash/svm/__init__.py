"""Maximum-margin solvers with certificates. They know nothing of hashing."""

from sihash.svm.binary import solve_binary
from sihash.svm.machines import Machines, Solution
from sihash.svm.ocam import MulticlassSolution, solve_multiclass

__all__ = ["Machines", "MulticlassSolution", "Solution", "solve_binary", "solve_multiclass"]
