"""The array type of annotations: shapes and dtypes are stated in the docstrings."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
