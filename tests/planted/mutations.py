"""Change the source in small ways and list the changes that no test notices.

``python tests/planted/mutations.py [PACKAGE ...] [--sample 40] [--seed 0]``. A mutant is a module with one
operator, constant or condition changed, or one line dropped. It is killed if the tests of its package fail,
or take five times as long as without it. `make soak` draws a sample of each package and fails if less than
85 % are killed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from run import copied, run_tests

# The quickest tests first: most mutants live for seconds.
TESTS = {
    "ranking": [
        "tests/ranking",
        "tests/database/test_search_order.py",
        "tests/database/test_search_laws.py",
    ],
    "index": ["tests/index/test_scan.py", "tests/index/test_every_index.py", "tests/index/test_faiss.py"],
    "store": [
        "tests/store",
        "tests/database/test_small_additions.py",
        "tests/database/test_database.py",
        "tests/database/test_damage.py",
    ],
    "hashing": ["tests/hashing"],
    "database": ["tests/database"],
}
ELSEWHERE = {"milvus.py", "milvus_connection.py", "served.py"}  # their tests need a server
WANTED = 0.85

SWAPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield ast.Compare(node.left, [SWAPPED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(SWAPPED[type(node.op)](), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield ast.Pass()


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Where a module can be changed: parent, field, position in the field, and the node that comes there."""
    for parent in ast.walk(tree):
        if isinstance(parent, ast.Raise | ast.JoinedStr | ast.AnnAssign):
            continue  # what errors say, and types
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for position, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.AST):
                    yield from ((parent, field, position, new) for new in changes(node))


def mutants(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, what is changed, and the text of the module with the change."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for parent, field, position, new in list(places(tree)):
        holder = getattr(parent, field)
        old = holder if position is None else holder[position]
        new = ast.fix_missing_locations(ast.copy_location(copy.deepcopy(new), old))
        put(parent, field, position, new)
        text, said = ast.unparse(tree), f"{ast.unparse(old)}  ->  {ast.unparse(new)}"
        put(parent, field, position, old)
        yield old.lineno, said, text


def put(parent: ast.AST, field: str, position: int | None, node: ast.AST) -> None:
    if position is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[position] = node


def tried(package: str, n: int, seed: int, root: Path) -> list[str]:
    """Survivors of a sample of a package's mutants, in a copy of the source."""
    files = sorted((root / "src" / "sihash" / package).rglob("*.py"))
    every = [(path, *found) for path in files if path.name not in ELSEWHERE for found in mutants(path)]
    sample = random.Random(seed).sample(every, min(n, len(every)))
    start = time.perf_counter()
    code, said = run_tests(root, TESTS[package])
    if code:
        raise SystemExit(f"Without any change, the tests of {package} must pass:\n{said}")
    patience = 30 + 5 * (time.perf_counter() - start)
    survivors = []
    for path, line, what, text in sample:
        before = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        try:
            code, _ = run_tests(root, TESTS[package], patience)
        except subprocess.TimeoutExpired:
            code = 1
        path.write_text(before, encoding="utf-8")
        where = f"{path.relative_to(root / 'src').as_posix()}:{line}: {what}"
        if code == 0:
            survivors.append(where)
        print(f"{'SURVIVED' if code == 0 else 'killed  '} {where}", flush=True)
    print(
        f"{package}: {len(sample) - len(survivors)} of {len(sample)} killed ({len(every)} in all)", flush=True
    )
    return survivors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("packages", nargs="*", default=list(TESTS), help=f"of {', '.join(TESTS)}")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    worst = 0.0
    for package in given.packages:
        with tempfile.TemporaryDirectory() as folder:
            survivors = tried(package, given.sample, given.seed, copied(Path(folder)))
        worst = max(worst, len(survivors) / given.sample)
    return int(worst > 1 - WANTED)


if __name__ == "__main__":
    sys.exit(main())
