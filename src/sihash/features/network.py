"""Runs an image network on this machine, by onnxruntime."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sihash._typing import Array
from sihash.features.onnx_writer import OnnxGraph

MISSING = "Networks need onnxruntime: pip install 'sihash[photos]'."
_DTYPES: dict[str, Any] = {"tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


class Network:
    """A network in memory, in ONNX's file format.

    ``output`` is the tensor that it returns. ``channels_last`` says that the input is n × height × width ×
    channels. ``name`` is for messages.
    """

    def __init__(self, model: bytes, output: str, name: str, channels_last: bool = False) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ImportError(MISSING) from None
        self._output, self._channels_last = output, channels_last
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # batches run side by side already
        options.log_severity_level = 3
        if _sums_are_cut_off():
            options.add_session_config_entry("session.x64quantprecision", "1")  # slower, and exact
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises its own family of errors, none of them public
            raise ValueError(f"{name} cannot be opened as an ONNX network: {error}") from None
        self._input = self._session.get_inputs()[0]
        n = self._input.shape[0]
        self.batch: int | None = n if isinstance(n, int) else None

    def __call__(self, X: Array) -> Array:
        """Images n × height × width × channels to vectors n × n_features."""
        n = len(X)
        if self.batch and n < self.batch:  # the batch is part of such a network: fill it up
            X = np.concatenate([X, np.zeros((self.batch - n, *X.shape[1:]), dtype=X.dtype)])
        if not self._channels_last:
            X = np.ascontiguousarray(X.transpose(0, 3, 1, 2))
        dtype = _DTYPES.get(self._input.type, np.float32)
        (values,) = self._session.run([self._output], {self._input.name: X.astype(dtype, copy=False)})
        return np.asarray(values[:n], dtype=np.float32).reshape(n, -1)


@cache
def _sums_are_cut_off() -> bool:
    """Whether the fast way to add products of 8 bits overflows here, as on x86 processors without VNNI."""
    import onnxruntime

    graph, n = OnnxGraph(), 64
    graph.constant("weights", np.full((n, 16), 127, dtype=np.int8))
    graph.node("MatMulInteger", ["numbers", "weights"], "sums")
    model = graph.file(("numbers", "uint8", (1, n)), ("sums", "int32", (1, 16)))
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (sums,) = session.run(None, {"numbers": np.full((1, n), 255, dtype=np.uint8)})
    return bool((sums != 255 * 127 * n).any())
