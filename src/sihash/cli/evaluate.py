"""``sihash evaluate``: how well searches find items of the right class."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sihash.cli.options import Json, check_vectors, open_database, refuse_missing_files
from sihash.cli.output import emit, one_line, progress_bar
from sihash.cli.search import Rank

if TYPE_CHECKING:
    from sihash._typing import Array
    from sihash.database.answers import Evaluation
    from sihash.evaluation import RetrievalScores

    Coded = tuple[Array, Any]  # packed codes, labels

AGAINST = "queries against a database"


def evaluate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A database, or an .npz with codes and labels; with --model, any data set."
        ),
    ],
    database: Annotated[
        Path | None, typer.Option(help="Another .npz: the items to search with the queries in SOURCE.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="A model file that encodes the vectors of SOURCE.")
    ] = None,
    features: Annotated[str | None, typer.Option(help="With --model: gist, pixels, onnx:<file>.")] = None,
    against_train: Annotated[
        bool, typer.Option(help="With --model: search the training part with the test part.")
    ] = False,
    queries: Annotated[
        str | None, typer.Option(help="For a database: labelled images or vectors to use as queries.")
    ] = None,
    rank: Annotated[Rank | None, typer.Option(help="For a database: a ranking other than combined.")] = None,
    max_queries: Annotated[
        int, typer.Option(min=1, help="For a database: use at most this many queries, drawn at random.")
    ] = 1000,
    against: Annotated[
        bool, typer.Option("--against", help="For a database: compare with cosine, sign bits, PQ and LDA.")
    ] = False,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", help="For codes: rank for precision@k, mAP@k and NDCG@k; repeat for more."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure how well a database answers searches.

    Prints P@1, P@10, mAP and the worst classes. P@10 stays below 1 where a class has fewer than ten items.

    Queries come from --queries, or are some of the database's own items; an item never finds itself.
    --against also evaluates cosine on the vectors, one bit per dimension, product quantisation and LDA's
    label on the same data, and gives advice.

    SOURCE may also be a file of codes: packed uint8 (array `codes` or `X`), with one label per row or
    indicators (`labels` or `y`), and `n_bits` if not all bits are used. Each item is the query once, against
    all others.

    Example: sihash evaluate DB --queries held-out-photos/ --against
    """
    is_database = model is None and (Path(source) / "catalogue.sqlite").is_file()
    if is_database and (database or features or against_train or k):
        raise typer.BadParameter(
            "for a database use --queries, --rank and --against; the other options are for files of codes."
        )
    if not is_database and (queries or rank or against):
        raise typer.BadParameter(f"--queries, --rank and --against need a database, and {source} is not one.")
    if is_database:
        found, text = _of_database(source, queries, rank and rank.value, max_queries, against)
        emit(found, text, as_json)
        return
    if not model:
        if not Path(source).exists():
            raise ValueError(f"There is no database and no file of codes at {source}.")
        refuse_missing_files([database] if database else [])
    if model:
        result = _of_codes(*_by_model(source, model, features, against_train), k or [])
    else:
        asking, n_bits = _read_codes(Path(source))
        stored = _read_codes(database)[0] if database else None
        result = _of_codes(asking, stored, n_bits, k or [])
    emit(result, _text(result), as_json)


def _of_database(
    path: str, queries: str | None, rank: str | None, max_queries: int, against: bool
) -> tuple[dict[str, Any], str]:
    """The evaluation in plain types and as text; ``against`` adds the comparison to both."""
    from sihash.cli.comparison import comparison_data, comparison_table

    with open_database(Path(path)) as opened:
        found = opened.evaluate(queries, rank=rank, max_queries=max_queries)
        result, text = asdict(found), _evaluation_text(found)
        if against:
            comparison = opened.compare(queries, max_queries=max_queries)
            result["against"] = comparison_data(comparison)
            text += "\n\n" + comparison_table(comparison)
    return result, text


def _evaluation_text(found: Evaluation) -> str:
    left_out = f", {found.n_left_out:,} left out: nothing relevant" if found.n_left_out else ""
    lines = [
        f"version {found.version}, {found.rank} ranking: {found.n_queries:,} queries{left_out}; "
        f"{found.n_items:,} items",
        f"P@1 {found.p_at_1:.4f}   P@10 {found.p_at_10:.4f}   mAP {found.mAP:.4f}",
    ]
    lines += [found.note] if found.note else []
    worst = [each for each in found.worst(5) if each.mAP < 1]
    lines += ["worst classes:"] if worst else []
    lines += [
        f"  P@1 {each.p_at_1:.3f}   P@10 {each.p_at_10:.3f}   mAP {each.mAP:.3f}   "
        f"{_count(each.n_queries)}   {one_line(str(each.label))}"
        for each in worst
    ]
    return "\n".join(lines)


def _count(n_queries: int) -> str:
    return "1 query" if n_queries == 1 else f"{n_queries:,} queries"


def _of_codes(queries: Coded, stored: Coded | None, n_bits: int | None, k: list[int]) -> dict[str, Any]:
    from sihash.evaluation import against_database, bit_statistics, leave_one_out

    scores = against_database(*queries, *stored, k=k) if stored else leave_one_out(*queries, k=k)
    bits = bit_statistics(stored[0] if stored else queries[0], n_bits)
    return {
        **_result(scores, AGAINST),
        "mean_imbalance": bits.mean_imbalance,
        "mean_correlation": bits.mean_correlation,
    }


def _result(scores: RetrievalScores, apart: str) -> dict[str, Any]:
    """Scores in plain types; ``apart`` names the protocol if it is not leave-one-out."""
    return {
        "protocol": "leave one out" if scores.leaves_one_out else apart,
        "n_queries": scores.n_queries,
        "n_left_out": scores.n_left_out,
        "n_database": scores.n_database,
        "mAP": scores.mAP,
        "mAP_at": scores.mAP_at,
        "NDCG_at": scores.NDCG_at,
        "precision_at": scores.precision_at,
        "precision": scores.precision.tolist(),
        "recall": scores.recall.tolist(),
    }


def _text(result: dict[str, Any]) -> str:
    left_out = f", {result['n_left_out']:,} left out: nothing relevant" if result["n_left_out"] else ""
    lines = [
        f"{result['protocol']}: {result['n_queries']:,} queries{left_out}; {result['n_database']:,} items",
        f"mAP {result['mAP']:.4f}",
        *(
            f"k = {k}: mAP@k {result['mAP_at'][k]:.4f}, precision@k {result['precision_at'][k]:.4f}, "
            f"NDCG@k {result['NDCG_at'][k]:.4f}"
            for k in result["mAP_at"]
        ),
        *(
            f"radius {r}: precision {result['precision'][r]:.4f}, recall {result['recall'][r]:.4f}"
            for r in range(min(4, len(result["precision"])))
        ),
        f"bits: mean imbalance {result['mean_imbalance']:.3f}",
    ]
    if not any(result["recall"][:3]):
        lines.insert(
            -1, "(nothing lies within 2 bits of any query; with long codes and many classes that is usual)"
        )
    if "mean_correlation" in result:
        lines[-1] += f", mean correlation {result['mean_correlation']:.3f}"
    return "\n".join(lines)


def _read_codes(path: Path) -> tuple[Coded, int | None]:
    """Codes and labels, and the number of bits: array ``n_bits``, or None for all bits of the bytes."""
    import numpy as np

    if not path.is_file():
        raise ValueError(f"{path} is neither a database nor an .npz file of codes; a data set needs --model.")
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except Exception:  # a damaged file fails in the way of whatever reads it
        raise ValueError(f"{path} is not an .npz file of codes and labels.") from None
    codes = arrays.get("codes", arrays.get("X"))
    labels = arrays.get("labels", arrays.get("y"))
    if codes is None or labels is None:
        raise ValueError(f"{path} holds {', '.join(arrays) or 'nothing'}; expected arrays codes and labels.")
    n_bits = arrays.get("n_bits")
    if n_bits is not None and (n_bits.size != 1 or n_bits.dtype.kind not in "iu"):
        raise ValueError(
            f"{path}: n_bits must be one whole number, got {n_bits.dtype} of shape {n_bits.shape}."
        )
    return (codes, labels), None if n_bits is None else int(n_bits.item())


def _by_model(
    source: str, model: Path, features: str | None, against_train: bool
) -> tuple[Coded, Coded | None, int]:
    from sihash.datasets import load

    with progress_bar(features or "reading") as progress:
        data = load(source, features, progress=progress)
    check_vectors(data.X_train, source)
    if data.y_train is None:
        raise ValueError(f"{source} has no labels, so nothing counts as relevant.")
    hasher = _open_model(model)
    has_test = len(data.X_test) > 0
    X, y = (data.X_test, data.y_test) if has_test else (data.X_train, data.y_train)
    queries = hasher.transform(X), y
    if not against_train:
        return queries, None, hasher.n_bits
    if not has_test:
        raise ValueError(f"{source} has no test part; leave out --against-train.")
    return queries, (hasher.transform(data.X_train), data.y_train), hasher.n_bits


def _open_model(path: Path) -> Any:
    """The hasher in a model file, of whatever class it says."""
    from sihash import modelfile

    header, _ = modelfile.read(path)
    for module in ("sihash.hashing", "sihash.research.baselines"):
        found = getattr(importlib.import_module(module), str(header.get("class")), None)
        if found:
            return found.load(path)
    raise ValueError(
        f"{path} holds a model of the unknown class {header.get('class')!r}; update sihash to use it."
    )
