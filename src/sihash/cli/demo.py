"""``sihash demo``: the life of a database, on sentences of SciPy's documentation, which is installed."""

from __future__ import annotations

import re
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sihash.cli.options import Json
from sihash.cli.output import emit, print_message, print_result, write_page

if TYPE_CHECKING:
    from sihash._typing import Array
    from sihash.database import Database
    from sihash.database.answers import Answer

DEMO_BITS = 32
N_NUMBERS = 200  # of the vector of a sentence
NEW = "signal"  # the subject that comes later
FEWEST = 80  # sentences of a subject
QUERY_EVERY = 4  # one of so many sentences is a query
MARK = "made-by-sihash-demo"  # a folder with this file in it may be replaced by the next demo


@dataclass(frozen=True)
class Search:
    """A query about the new subject, and its answers before and after the update."""

    sentence: str
    before: Answer
    after: Answer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page, the sentences and the database.")] = Path(
        "sihash-demo"
    ),
    as_json: Json = False,
) -> None:
    """Show what a database does, on 3,600 real sentences.

    Creates and searches a database, adds a new class, learns it, and removes it. Writes a page with answers
    before and after. Needs no data and no network. Vectors and database stay in the folder until the next
    demo.

    Example: sihash demo
    """
    tell = print_message if as_json else print_result
    files, place = _prepare(out)
    _warm_up(files)
    figures, searches = _story(files, place, tell)
    page = write_page(out / "index.html", "demo.html", figures=figures, searches=searches, new=NEW)
    tell(f"\nAnswers before and after the update: {page}\n\n{_how_to_go_on(place)}")
    if as_json:
        emit({**figures, "page": str(page), "database": str(place)}, "", as_json)


def _how_to_go_on(place: Path) -> str:
    """Commands to try, with the `sihash` of this environment; the shell may know none, or another."""
    sihash, pip = (_shown(Path(sys.executable).with_name(name)) for name in ("sihash", "pip"))
    return (
        "The database is yours to try:\n"
        f"  {sihash} search {place} --id 0          # sentences like the first\n"
        f"  {sihash} doctor {place}                 # labels that look wrong\n"
        f"  {sihash} create my-db my-photos/        # one folder of photos per class; or a table\n"
        f"For a page in the browser, with a map:\n"
        f"  {pip} install 'sihash[service]'\n"
        f"  {sihash} serve {place}"
    )


def _shown(command: Path) -> Path:
    return command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command


# The sentences.


def _prepare(out: Path) -> tuple[Path, Path]:
    """Fresh folders for vectors and database; those of an earlier demo go."""
    work = out / "collection"
    if (work / MARK).is_file():
        shutil.rmtree(work)
    elif out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} exists and was not made by a demo; choose another folder with --out.")
    (work / "sentences").mkdir(parents=True)
    (work / MARK).touch()
    _write_vectors(work / "sentences")
    return work / "sentences", work / "database"


def _sentences() -> list[tuple[str, str]]:
    """Subjects, the parts of SciPy, and the sentences of their documentation; each sentence once."""
    import scipy

    root = Path(scipy.__file__).parent
    found = []
    for part in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("_")):
        for file in sorted(part.rglob("*.py")):
            if not any(folder in ("tests", "_lib") for folder in file.relative_to(root).parts):
                docs = re.findall(r'"""(.*?)"""', file.read_text(encoding="utf-8"), re.DOTALL)
                found += [(part.name, sentence) for text in docs for sentence in _first_sentences(text)]
    parts = Counter(sentence for _, sentence in dict.fromkeys(found))
    once = [pair for pair in dict.fromkeys(found) if parts[pair[1]] == 1]
    sizes = Counter(subject for subject, _ in once)
    return [pair for pair in once if sizes[pair[0]] >= FEWEST]


def _first_sentences(text: str) -> Iterator[str]:
    """Sentences of the first paragraphs, up to lists of parameters and examples."""
    for paragraph in re.split(r"\n\s*\n", text)[:3]:
        if re.search(r"---|\.\. |>>>", paragraph):
            return
        plain = re.sub(r"`|\s*\[[0-9]+\]_", "", " ".join(paragraph.split()))  # without marks of the format
        for sentence in re.split(r"(?<=[.!?])\s+", plain):
            if 30 < len(sentence) < 200 and sentence[0].isupper() and sentence[-1] in ".!?":
                yield sentence


def _write_vectors(folder: Path) -> None:
    """Files of vectors, labels and sentences: first, new (of the new subject), and queries.

    A vector counts the words of a sentence, rare words more, reduced to `N_NUMBERS` directions. The words and
    directions are those of the first sentences: they know nothing of the new subject.
    """
    import numpy as np
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    pairs = _sentences()
    y, sentences = (np.array(each) for each in zip(*pairs, strict=True))
    is_query, is_new = np.arange(len(y)) % QUERY_EVERY == QUERY_EVERY - 1, y == NEW
    first = ~is_query & ~is_new
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    reduced = TruncatedSVD(N_NUMBERS, n_iter=3, random_state=0)
    reduced.fit(words.fit_transform(sentences[first]))
    X = reduced.transform(words.transform(sentences)).astype(np.float32)
    for name, rows in (("first", first), ("new", ~is_query & is_new), ("queries", is_query)):
        np.savez(folder / f"{name}.npz", X=X[rows], y=y[rows], name=sentences[rows])


def _warm_up(files: Path) -> None:
    """Compile the inner loops before anything is timed, by a small database that is thrown away."""
    import tempfile

    import numpy as np

    with np.load(files / "first.npz") as first, tempfile.TemporaryDirectory(dir=files.parent) as folder:
        some, later = slice(0, None, 10), slice(1, None, 50)
        database = _create(Path(folder) / "database", first["X"][some], first["y"][some], n_anchors=50)
        database.add(first["X"][later], ["later"] * len(first["X"][later]))
        database.update()
        database.search(first["X"][:2])
        database.close()


def _create(place: Path, source: Any, labels: Any = None, **sih_params: Any) -> Database:
    from sihash.database import Database

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few rows for many anchors
        return Database.create(place, source, labels, n_bits=DEMO_BITS, **sih_params)


# The story.


def _story(files: Path, place: Path, tell: Callable[[str], None]) -> tuple[dict[str, Any], list[Search]]:
    import numpy as np

    with np.load(files / "queries.npz") as stored:
        queries = {name: stored[name] for name in ("X", "y", "name")}
    tell(f"DB is {place}, vectors and sentences are in {files}.\n")
    start = time.perf_counter()
    database = _create(place, files / "first.npz")
    figures: dict[str, Any] = {"n_bits": DEMO_BITS, "n_items": len(database)}
    figures["create_seconds"] = time.perf_counter() - start
    classes = database.info()["classes"]
    tell(
        f"sihash create DB sentences/first.npz\n"
        f"  {len(database):,} sentences of SciPy's documentation about {len(classes)} subjects: "
        f"{', '.join(classes)}.\n"
        f"  The subject is the label. A sentence came as a vector of {N_NUMBERS} numbers; the database "
        f"learned a code of {DEMO_BITS} bits\n  ({DEMO_BITS // 8} bytes) for each, in "
        f"{figures['create_seconds']:.1f} s."
    )
    old = queries["y"] != NEW
    chance = max(classes.values()) / len(database)
    figures["p_at_1"] = _first_hits(database, queries["X"][old], queries["y"][old], "combined")
    tell(
        "sihash evaluate DB --queries sentences/queries.npz\n"
        f"  {int(old.sum()):,} sentences that it never saw: for {figures['p_at_1']:.0%} of them the first "
        f"hit is about the same subject.\n  Always naming the largest would be right for {chance:.0%}."
    )
    n_new = len(database.add(files / "new.npz").added)
    tell(
        f"sihash add DB sentences/new.npz\n  {n_new} sentences about a subject that it does not know: {NEW}. "
        "Searches find them at once."
    )
    about_new = queries["X"][~old]
    before = database.search(about_new, k=5, rank="hamming")
    figures["new_class"] = _three_ways(database, queries, tell)
    after = database.search(about_new, k=5, rank="hamming")
    figures["n_removed"] = len(database.remove_classes([NEW]).removed)
    database.undo()
    tell(
        f"sihash remove DB --class {NEW}\n  {figures['n_removed']} sentences removed: searches no longer "
        f"return them.\nsihash undo DB\n  {len(database):,} sentences: all are back."
    )
    database.close()
    searches = [Search(*each) for each in zip(queries["name"][~old].tolist(), before, after, strict=True)]
    return figures, sorted(searches, key=_n_gained)[-3:]


def _three_ways(database: Database, queries: dict[str, Array], tell: Callable[[str], None]) -> dict[str, Any]:
    """What a new class asks for: nothing, learning from scratch, or an update, which stays in force."""
    ways: dict[str, Any] = {"passive": {**_quality(database, queries), "seconds": 0.0}}
    strategies: tuple[Literal["relearn", "incremental"], ...] = ("relearn", "incremental")
    for strategy in strategies:
        report = database.update(strategy)
        seconds = report.seconds["learning"]
        ways[strategy] = {**_quality(database, queries), "seconds": seconds, "report": report.text}
        if strategy == "relearn":
            database.undo()
    words = {
        "passive": "left as it was",
        "incremental": "sihash update DB",
        "relearn": "sihash update DB --relearn",
    }
    tell(
        f"\n  First hits that are right, asked about    {NEW} (new)           the other subjects\n"
        "                                           search  codes alone   search  codes alone   seconds"
    )
    for way, name in words.items():
        row = ways[way]
        tell(
            f"  {name:<40} {row['new']:7.0%} {row['new_by_codes']:11.0%} {row['old']:9.0%} "
            f"{row['old_by_codes']:11.0%} {row['seconds']:11.2f}"
        )
    tell(
        "  search: codes find candidates, then labels and vectors order them. codes alone: the fewest\n"
        f"  unlike bits, from {DEMO_BITS // 8} bytes a sentence: what was learned. seconds are those of "
        "learning;\n  --relearn changes every code, an update keeps the others valid.\n"
    )
    return ways


def _quality(database: Database, queries: dict[str, Array]) -> dict[str, float]:
    """The share of first hits that are right, for queries of the new class and of the old ones."""
    X, y = queries["X"], queries["y"]
    found = {}
    for ending, rank in (("", "combined"), ("_by_codes", "hamming")):
        for name, rows in (("new", y == NEW), ("old", y != NEW)):
            found[name + ending] = _first_hits(database, X[rows], y[rows], rank)
    return found


def _first_hits(database: Database, X: Array, y: Array, rank: str) -> float:
    answers = database.search(X, k=1, rank=rank)
    return sum(answer.hits[0].label == label for answer, label in zip(answers, y, strict=True)) / len(y)


def _n_gained(search: Search) -> int:
    """How many more hits are about the new subject after the update."""
    before, after = (sum(hit.label == NEW for hit in each.hits) for each in (search.before, search.after))
    return after - before
