"""The pixels themselves as the vector."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from sihash._typing import Array
from sihash.checks import check_count


@dataclass(frozen=True)
class Pixels:
    """Values in 0…1, row after row (colours innermost); float32.

    ``size`` crops to the centre square and resizes; without it images stay as they are and must all be of
    one size. ``grey`` drops the colour.
    """

    size: int | None = None
    grey: bool = False
    batch = 64

    def __post_init__(self) -> None:
        if self.size is not None:
            check_count("size", self.size)

    @property
    def settings(self) -> dict[str, Any]:
        return {"features": "pixels", **asdict(self)}

    @property
    def at_least(self) -> int | None:
        return self.size

    def prepare(self, image: Image.Image) -> Array:
        if self.grey:
            image = image.convert("L")
        if self.size is not None:
            image = ImageOps.fit(image, (self.size, self.size), Image.Resampling.BILINEAR)
        return np.asarray(image)

    def describe(self, batch: Array) -> Array:
        return batch.reshape(len(batch), -1).astype(np.float32) / np.float32(255)
