"""``sihash extract``: turn images into vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sihash.atomic_file import whole_file
from sihash.cli.options import (
    AllowRejects,
    Json,
    Mean,
    Progress,
    Size,
    Std,
    Tensor,
    check_vectors,
    numbers,
    refuse_missing_source,
    with_extension,
)
from sihash.cli.output import REJECTED, ProgressKind, emit, progress_bar, talk


def extract(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A data set's name, or a folder, archive or file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")],
    features: Annotated[
        str, typer.Option(help="As in `sihash create`; none for a collection that holds vectors.")
    ] = "auto",
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    tensor: Tensor = None,
    labels: Annotated[
        str | None, typer.Option(help="The labels file of an .npy, or the label column of a table.")
    ] = None,
    cache: Annotated[bool, typer.Option(help="Cache features on disk.")] = True,
    allow_rejects: AllowRejects = False,
    progress: Progress = ProgressKind.auto,
    as_json: Json = False,
) -> None:
    """Turn a collection of images into vectors.

    Writes the arrays X and y (or X_train, y_train, X_test, y_test) and class_names.

    Rejected files are listed in OUTPUT.rejects.jsonl; the exit code is then 3.

    Example: sihash extract photos/ -o photos.npz --features onnx:network.onnx
    """
    refuse_missing_source(source)
    output = with_extension(output, ".npz")
    import numpy as np

    from sihash.datasets import load

    given = {"size": size, "mean": numbers(mean), "std": numbers(std), "output": tensor}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with progress_bar(features, progress) as tell:
        data = load(source, features, labels=labels, cache=cache, progress=tell, **options)
        check_vectors(data.X_train, source)
        with whole_file(output) as file:
            np.savez(file, **_arrays(data))
        rejects = output.with_name(output.name + ".rejects.jsonl")
        if data.rejects:
            data.write_rejects(rejects)
            talk(f"{len(data.rejects):,} files were rejected; see {rejects}.")
        else:
            rejects.unlink(missing_ok=True)
    emit({**data.summary, "output": str(output)}, f"{data}\nwritten to {output}", as_json)
    if data.rejects and not allow_rejects:
        raise typer.Exit(REJECTED)


def _arrays(data: Any) -> dict[str, Any]:
    import numpy as np

    parts = ("train", "test") if len(data.X_test) else ("train",)
    arrays: dict[str, Any] = {}
    for part in parts:
        suffix = f"_{part}" if len(parts) == 2 else ""
        arrays[f"X{suffix}"] = getattr(data, f"X_{part}")
        if data.y_train is not None:
            arrays[f"y{suffix}"] = getattr(data, f"y_{part}")
    if data.class_names:
        arrays["class_names"] = np.array(data.class_names)
    return arrays
