"""What an ONNX file says of itself: the input for images, and the tensor that describes them.

A file may come from anywhere. What it refers to outside its folder, operators that onnxruntime does not
have, and constants larger than any file are refused before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MISSING = "Networks in ONNX files need onnxruntime and onnx: pip install 'sihash[onnx]'."
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")  # of operators that onnxruntime has
_MOST_BYTES = 2 << 30  # what one ONNX file can hold
_CHANNELS = (1, 3)

# Behind the last layer: what shapes, scales or names its numbers, and what makes probabilities of scores.
_SHAPING = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast", "Dropout")
_SCORING = ("Softmax", "LogSoftmax", "Sigmoid")


@dataclass(frozen=True)
class OnnxFile:
    """A network in memory. ``input`` takes images; ``channels_last``, ``sides`` (height, width) and ``batch``
    are None where the file leaves them open. ``output`` is the tensor to use, ``weight_files`` lie beside it.
    """

    model: bytes
    input: str
    takes_bytes: bool
    channels_last: bool | None
    n_channels: int
    sides: tuple[int, int] | None
    output: str
    weight_files: tuple[Path, ...]


def open_onnx(file: str, output: str | None = None) -> OnnxFile:
    """Read and check the file at ``file``; ``output`` names the tensor, None takes the last features."""
    try:
        return _opened(file, output)
    except (ValueError, FileNotFoundError, ImportError) as error:
        if file in str(error) or isinstance(error, ImportError):
            raise
        raise ValueError(f"{file} is not an ONNX file: {error}") from None
    except Exception as error:  # a damaged message fails in many ways
        raise ValueError(f"{file} is not an ONNX file: {error}") from None


def _opened(file: str, output: str | None) -> OnnxFile:
    model, weight_files = _load(file)
    graph = model.graph
    image = _image_input(graph, file)
    shape = [d.dim_value if d.dim_value > 0 else None for d in image.type.tensor_type.shape.dim]
    channels_last, n_channels = _layout(graph, image.name, shape)
    if n_channels not in _CHANNELS:
        raise ValueError(f"{file} takes images of {n_channels} channels; expected 1 or 3.")
    sides = shape[1:3] if channels_last else shape[2:4]
    output = output or _last_features(graph)
    _add_output(graph, output, file)
    return OnnxFile(
        model=_serialized(model, file),
        input=image.name,
        takes_bytes=image.type.tensor_type.elem_type == 2,  # TensorProto.UINT8
        channels_last=channels_last,
        n_channels=n_channels,
        sides=(sides[0], sides[1]) if sides[0] and sides[1] else None,
        output=output,
        weight_files=weight_files,
    )


# Loading.


def _load(file: str) -> tuple[Any, tuple[Path, ...]]:
    """The model with all its weights, and the files beside it that hold some of them."""
    try:
        import onnx
        from onnx.external_data_helper import ExternalDataInfo, uses_external_data
    except ImportError:
        raise ImportError(_MISSING) from None
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"No ONNX file at {file}.")
    model = onnx.load(file, load_external_data=False)
    places = set()
    for tensor in _tensors(model):
        # Half a byte is the smallest number.
        if any(n < 0 for n in tensor.dims) or math.prod(tensor.dims) > 2 * _MOST_BYTES:
            raise ValueError(
                f"{file} has a constant of {' × '.join(map(str, tensor.dims))} numbers, more than a network "
                "file can hold; export it again."
            )
        if uses_external_data(tensor):
            places.add(ExternalDataInfo(tensor).location)
    _refuse_unknown_operators(model, file)
    _refuse_large_fillings(model, file)
    weight_files = tuple(_beside(path, place) for place in sorted(places))
    try:
        return onnx.load(file), weight_files
    except Exception as error:  # of many kinds: what does not lie in its file, for one
        raise ValueError(f"The weights of {file} cannot be read: {error}") from None


def _beside(path: Path, place: str) -> Path:
    """A file of weights; it must lie in the folder of the network or below."""
    folder, weights = path.parent.resolve(), (path.parent / place).resolve()
    if not weights.is_relative_to(folder):
        raise ValueError(
            f"{path} takes weights from {place!r}, outside its folder; put them beside the network and "
            "export it again."
        )
    if not weights.is_file():
        raise FileNotFoundError(f"{path} needs a file of weights that is not beside it: {place}.")
    return path.parent / place


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those inside its nodes: the branches of a condition, the body of a loop."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def _nodes(model: Any) -> Iterator[Any]:
    for graph in _graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def _tensors(model: Any) -> Iterator[Any]:
    """All constants of a model, wherever they are."""
    for graph in _graphs(model.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in _nodes(model):
        for attribute in node.attribute:
            yield from attribute.tensors
            if attribute.HasField("t"):
                yield attribute.t


def _refuse_unknown_operators(model: Any, file: str) -> None:
    known = {*_DOMAINS, *(function.domain for function in model.functions)}
    for node in _nodes(model):
        if node.domain not in known:
            raise ValueError(
                f"{file} needs the operator {node.op_type} of {node.domain!r}, which onnxruntime does not "
                "have; export the network without it."
            )


def _refuse_large_fillings(model: Any, file: str) -> None:
    """`ConstantOfShape` makes a tensor of any size of a few bytes."""
    from onnx import numpy_helper

    small = {t.name: t for graph in _graphs(model.graph) for t in graph.initializer if len(t.dims) == 1}
    for node in _nodes(model):
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            small[node.output[0]] = node.attribute[0].t
    for node in _nodes(model):
        shape = small.get(node.input[0]) if node.op_type == "ConstantOfShape" and node.input else None
        if shape is not None and not shape.external_data:
            n = math.prod(numpy_helper.to_array(shape).ravel().tolist())
            if 4 * n > _MOST_BYTES:
                raise ValueError(
                    f"{file} makes a constant of {n:,} numbers, more than a network file can hold; export it "
                    "again."
                )


def _serialized(model: Any, file: str) -> bytes:
    try:
        return bytes(model.SerializeToString())
    except Exception:  # protobuf's errors differ from version to version
        raise ValueError(f"{file} has more than 2 GB of weights; take a smaller network.") from None


# The input.


def _image_input(graph: Any, file: str) -> Any:
    """The one input, of four dimensions."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [each for each in graph.input if each.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs) or "none"
        raise ValueError(
            f"{file} must have one input, which takes images; it has {names}. Export the image part alone."
        )
    dims = inputs[0].type.tensor_type.shape.dim
    if len(dims) != 4:
        shape = [d.dim_param or d.dim_value for d in dims]
        raise ValueError(f"{file} takes an input of shape {shape}; an image network takes four dimensions.")
    return inputs[0]


def _layout(graph: Any, image: str, shape: list[int | None]) -> tuple[bool | None, int]:
    """Whether channels come last, and how many there are: by the shape, or by the first layer."""
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    if first != last:
        return last, (shape[3] if last else shape[1]) or 3
    weights = {tensor.name: tensor.dims for tensor in graph.initializer}
    reached = {image}
    for node in graph.node:  # in the order in which they run
        if not reached.intersection(node.input):
            continue
        if node.op_type == "Transpose":
            order = next((list(a.ints) for a in node.attribute if a.name == "perm"), [])
            if order == [0, 3, 1, 2]:
                return True, shape[3] or 3
        if node.op_type == "Conv":  # in ONNX always channels first
            dims = weights.get(node.input[1], [])
            groups = next((a.i for a in node.attribute if a.name == "group"), 1)
            return False, dims[1] * groups if len(dims) == 4 else shape[1] or 3
        reached.update(node.output)
    return None, shape[1] or 3


# The output.


def _last_features(graph: Any) -> str:
    """The tensor that describes an image: before the classifier if there is one, else the output.

    A classifier is a last linear layer with a bias, or any last layer whose output becomes probabilities.
    What is scaled to unit length, or only projected, are features.
    """
    maker = {name: node for node in graph.node for name in node.output}
    made = set(maker)
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {name for name, node in maker.items() if node.op_type == "Constant"}
    output = _flat_output(graph)
    name, is_scores, has_bias = output, False, False
    while name in maker:
        node = maker.pop(name)  # a damaged file may lead in a circle
        inputs = [each for each in node.input if each and each not in constants]
        is_scores |= node.op_type in _SCORING
        if node.op_type in ("Gemm", "MatMul", "Conv"):
            has_bias |= node.op_type == "Gemm" and len(node.input) == 3
            linear = node.op_type != "Conv" and len(inputs) == 1
            before = str(node.input[0])
            return before if before in made and (is_scores or (linear and has_bias)) else output
        if node.op_type == "Add" and len(inputs) == 1:
            has_bias = True
        elif not (node.op_type in (*_SHAPING, *_SCORING) or (is_scores and len(inputs) == 1)):
            return output
        name = inputs[0] if inputs else ""
    return output


def _flat_output(graph: Any) -> str:
    """The first output that is one vector an image, else the first."""
    flat = [each.name for each in graph.output if len(each.type.tensor_type.shape.dim) == 2]
    return str((flat or [graph.output[0].name])[0])


def _add_output(graph: Any, output: str, file: str) -> None:
    """Make a tensor one of the outputs."""
    import onnx

    if output not in {name for node in graph.node for name in node.output}:
        raise ValueError(
            f"{file} has no tensor named {output!r}; its outputs are "
            f"{', '.join(o.name for o in graph.output)}."
        )
    if output not in {o.name for o in graph.output}:
        graph.output.append(onnx.ValueInfoProto(name=output))
