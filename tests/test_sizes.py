"""Functions stay short and take few arguments: what is over is listed, and the list shrinks."""

import ast
from pathlib import Path

import pacsent

PACKAGE = Path(pacsent.__file__).parent
LINES, ARGUMENTS = 80, 7

# doors with many documented options, and loops of compiled code that would cost time apart
LONG = {
    "_kernels/formats.py: parse_lines",
    "bench/report.py: _page",
    "bench/reproduction.py: reproduce",
    "certificates/certifying.py: certify",
    "gpu/sentences.py: solve_pb_neg",
    "gpu/skipgram.py: replay",
    "gpu/skipgram.py: train_skipgram",
    "maths/risks.py: noise_risk",
    "words/generative.py: generate",
}
# commands have one argument for each option; kernels are handed arrays, not objects
MANY = {
    "_kernels/negative_sampling.py: sampled_noise_terms",
    "_kernels/negative_sampling.py: _move_words",
    "_kernels/negative_sampling.py: pb_neg_sgd",
    "_kernels/negative_sampling.py: true_terms",
    "_kernels/negative_sampling.py: word_sgd",
    "_kernels/skipgram.py: block_draw",
    "_kernels/skipgram.py: block_step",
    "_kernels/skipgram.py: train_blocks",
    "_kernels/skipgram.py: train_pairs",
    "_kernels/skipgram.py: train_shard",
    "certificates/simulation.py: _replicate",
    "gpu/logistic.py: _folds",
    "gpu/sentences.py: _solve_batch",
    "maths/lbfgs.py: _two_loop",
    "maths/pb_01.py: direct_objective",
    "maths/pb_01.py: minimise",
    "maths/pb_neg.py: __init__",
    "maths/regressions.py: _solved",
    "maths/w_pb_neg.py: sampled_objective",
}


def functions():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(PACKAGE).as_posix()}: {node.name}", node


def is_over(name, n, limit, listed) -> str:
    if n > limit and name not in listed:
        return f"{name} has {n}: take it apart"
    return ""


def test_functions_are_short():
    sizes = {name: node.end_lineno - node.lineno + 1 for name, node in functions()}
    assert not [text for name, n in sizes.items() if (text := is_over(name, n, LINES, LONG))]
    assert sorted(LONG) == sorted(name for name, n in sizes.items() if n > LINES), "shrink the list"


def test_functions_take_few_positional_arguments():
    counts = {}
    for name, node in functions():
        given = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        n = len([a for a in given if a not in ("self", "cls")])
        counts[name] = max(n, counts.get(name, 0))  # several classes have an __init__
    counts = {name: n for name, n in counts.items() if not name.startswith("cli/")}
    assert not [text for name, n in counts.items() if (text := is_over(name, n, ARGUMENTS, MANY))]
    assert sorted(MANY) == sorted(name for name, n in counts.items() if n > ARGUMENTS)


def test_a_name_of_a_class_or_kernel_means_one_thing():
    """The same name for two things in two files: a reader looks into the wrong one."""
    places: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kernels = path.parent.name == "_kernels"
        for node in tree.body:
            is_kernel = kernels and isinstance(node, ast.FunctionDef)
            if isinstance(node, ast.ClassDef) or (is_kernel and not node.name.startswith("_")):
                places.setdefault(node.name, set()).add(path.name)
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert not {name for name in twice if not name.startswith("_")} - {"alias_table"}, twice
