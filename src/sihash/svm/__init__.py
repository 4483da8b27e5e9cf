"""Maximum-margin solvers with certificates. They know nothing of hashing."""

from sihash.svm.binary import solve_binary
from sihash.svm.machines import Machines, Solution

__all__ = ["Machines", "Solution", "solve_binary"]
