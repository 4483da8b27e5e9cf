"""Types of annotations."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]  # shapes and dtypes are stated in the docstrings

# Told what is being done ("reading", "learning: round 1, binary SVMs"), and how much of it is done, 0…1.
Progress = Callable[[str, float], None]
