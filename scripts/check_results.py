"""Find results of benchmarks that describe older code than the present.

    python scripts/check_results.py

Every file in benchmarks/results records the commit at which it was measured ("commit"; "added" is
the commit that added a file whose own commit is not in the history). A result is out of date if a
function, method or constant of its benchmark or of a package that it measures has changed since;
docstrings, comments, annotations and messages do not count, nor do moves to another module. The
exit status is 1 if a page shows such a result without naming the version that was measured, by
commit and date, or if a result records a commit that HEAD does not descend from.
"""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ENCODING = tuple(
    f"sentences/{name}.py"
    for name in ("encoding", "sentence_vectorizer", "static_encoder", "methods/closed_forms")
)
CLASSIFIER = (
    "classify/classifier.py",
    "classify/fitting.py",
    "text/ngrams.py",
    "classify/solvers/sparse_regressions.py",
    "classify/solvers/temperature.py",
    *ENCODING,
)
MEASURED = {  # packages and modules of each benchmark
    "alternatives": (*CLASSIFIER, "certify", "predict"),
    "banking_example": (*CLASSIFIER, "certify", "predict"),
    "certify": ("bounds", "certify", "paper"),
    "classify": CLASSIFIER,
    "classify_bounds": ("paper", "certify", "predict"),
    "cluster": ("scale", *ENCODING),
    "cold": (*ENCODING, "kernels", "words/vector_table.py"),
    "comparison": ("bounds/paired_difference.py",),
    "drift": (*CLASSIFIER, "certify", "predict"),
    "encode": (*ENCODING, "text"),
    "encoders": (*ENCODING, "sentences/methods/sif.py"),
    "english": (*ENCODING, "sentences/methods/sif.py", "words/vector_table.py"),
    "few_labels": CLASSIFIER,
    "growth": (*CLASSIFIER, "certify", "predict", "kernels", "search"),
    "guarantees": ("bounds", "certify", "predict"),
    "html_page": ("web/html_export.py", "text/ngrams.py"),
    "idf_cost": ENCODING,
    "judge_fit": (*CLASSIFIER, "predict/certified_classifier.py"),
    "judge_leaks": ("certify", "bounds"),
    "judges": ("certify/judges.py", "bounds/binomial.py"),
    "label_checking": (*CLASSIFIER, "classify/label_checking.py", "bounds/binomial.py"),
    "labels": (
        "classify/choosing.py",
        "classify/label_quality.py",
        "certify/count_certificates.py",
        *CLASSIFIER,
    ),
    "many_classes": CLASSIFIER,
    "multilingual": ENCODING,
    "own_posteriors": ("paper", "sentences"),
    "pac_bayes": ("paper", "bounds"),
    "posterior_variance": ("sentences",),
    "printed": ("paper/printed", "sentences/solvers"),
    "protocol": ("paper", *ENCODING),
    "repeats": (*CLASSIFIER, "certify", "predict"),
    "own_language": (*ENCODING, "words"),
    "reproduce": ("paper", "sentences"),
    "scale": ("scale", *ENCODING),
    "search": ("search",),
    "serve": ("web",),
    "serve_classifier": ("web", "certify/drift_monitor.py", *CLASSIFIER),
    "vectors_in_classifier": (
        *CLASSIFIER,
        "sentences/methods",
        "sentences/solvers/pb_neg.py",
        "sentences/solvers/pb_neg_sampled.py",
    ),
    "simulate": ("bounds", "paper"),
    "solve": ("sentences/solvers", "kernels"),
    "solver": CLASSIFIER,
    "targets": (*CLASSIFIER, "classify/multilabel.py", "certify", "predict"),
    "train": (
        "words/skipgram.py",
        "words/skipgram_training.py",
        "kernels/skipgram.py",
        "kernels/skipgram.c",
    ),
    "train_gpu": ("words/gpu",),
}


def git(*arguments: str, text: str = "") -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, input=text).stdout


def is_in_history(commit: str) -> bool:
    """Whether HEAD descends from the commit; objects that no branch reaches are in no clone."""
    command = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0


class WithoutWords(ast.NodeTransformer):
    """Code without what cannot change a measurement: docstrings, annotations, messages."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("returns", "annotation"):
            if hasattr(node, field) and not isinstance(node, ast.AnnAssign):
                setattr(node, field, None)
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = body[1:]
        return super().generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None  # a module that moved is the same module

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        return ast.Constant("") if name == "warn" else self.generic_visit(node)


def add_definitions(code: str, definitions: dict[str, set[str]]) -> None:
    """Add the code of every function, method and constant of a module, by name."""
    tree = WithoutWords().visit(ast.parse(code))
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for member in members:
            if isinstance(member, (ast.FunctionDef, ast.ClassDef)):
                names = [member.name]
            elif isinstance(member, (ast.Assign, ast.AnnAssign)):
                targets = member.targets if isinstance(member, ast.Assign) else [member.target]
                names = [node.id for t in targets for node in ast.walk(t) if hasattr(node, "id")]
            else:
                continue  # imports, and what runs when a module is loaded
            if {"__all__", "__str__", "__repr__"} & set(names):
                continue
            for name in names:
                definitions.setdefault(prefix + name, set()).add(ast.dump(member))


@cache
def former_paths(commit: str) -> dict[str, str]:
    """Where files of today were at a commit, by their path today; those that moved since."""
    moves = git("diff", "--find-renames=40%", "--diff-filter=R", "--name-status", commit, "HEAD")
    return {new: old for _, old, new in (line.split("\t") for line in moves.splitlines())}


@cache
def definitions_at(commit: str, place: str) -> dict[str, set[str]]:
    paths_today = git("ls-tree", "-r", "--name-only", "HEAD", "--", place).split()
    moved = former_paths(commit)
    paths = git("ls-tree", "-r", "--name-only", commit, "--", place).split()
    paths += [moved[path] for path in paths_today if path in moved]
    definitions: dict[str, set[str]] = {}
    for path in paths:
        if path.endswith(".py"):
            add_definitions(git("show", f"{commit}:{path}"), definitions)
        elif path.endswith((".c", ".h")):  # a file is one definition
            definitions.setdefault(Path(path).name, set()).add(git("show", f"{commit}:{path}"))
    return definitions


def changes(name: str, commit: str) -> list[str]:
    """Definitions that are still there but differ. If another one has gone, so has what used it,
    or that has changed."""
    places = [f"src/pacsent/{package}" for package in MEASURED.get(name, ())]
    changed = []
    for place in (*places, f"benchmarks/{name}.py"):
        before, now = definitions_at(commit, place), definitions_at("HEAD", place)
        if now and not before:
            changed.append(f"all of {place}")
        for definition, code in before.items():
            if definition in now and not code <= now[definition]:
                changed.append(definition)
    return sorted(changed)


# Tables that a function of docs/make_numbers.py makes. The README's comparison of tools links to
# the page that names its version.
GENERATED = {
    "alternatives/setfit": ("setfit",),
    "alternatives/sets": ("caption-set-misses",),  # and the README, which links to it
    "banking_example/default": (
        "caption-guaranteed",
        "caption-split",
        "caption-risk-coverage",
        "caption-evidence",
    ),
    "classify/few": ("caption-few-labels",),
    "comparison/default": ("comparison",),
    "drift/kinds": ("caption-drift-found",),
    "growth/default": ("growth-slopes",),
    "guarantees/calibration": ("caption-violations",),
    "idf_cost/default": ("idf-cost",),
    **{
        f"label_checking/{name}": ("label-checking",)
        for name in ("20news", "banking77", "mr", "subj", "trec")
    },
    "pac_bayes/default": ("pac-bayes",),
    "printed/loss": ("printed-loss",),
    "printed/optimiser": ("printed-optimiser",),
    "repeats/flood": ("flood",),
    "repeats/simulation": ("caption-repeats",),
    "reproduce": ("paper-accuracy", "paper-differences"),
    "vectors_in_classifier/default": ("dense-parts",),
}


def pages_that_show(name: str) -> list[Path]:
    """Pages with a table made from a result, or that mention its file or folder."""
    patterns = [rf"<!-- from {re.escape(name)}[ :]", rf"results/{re.escape(name)}\b"]
    patterns += [rf"<!-- numbers: {table} -->" for table in GENERATED.get(name, ())]
    mention = re.compile("|".join(patterns))
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in pages if mention.search(page.read_text(encoding="utf-8"))]


def main() -> None:
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        sys.exit("This clone has no history to compare with: git fetch --unshallow")
    names = sorted(path.relative_to(RESULTS).with_suffix("").as_posix() for path in
                   RESULTS.rglob("*.json") if "reproduce" not in path.parts)  # fmt: skip
    n_outdated, failures = 0, 0
    for name in (*names, "reproduce"):  # many files of one run, which run.json describes
        path = RESULTS / ("reproduce/run.json" if name == "reproduce" else f"{name}.json")
        content = json.loads(path.read_text(encoding="utf-8"))
        commit = (content.get("commit") or content.get("added") or "").rstrip("+")
        if not commit or not is_in_history(commit):
            print(f"{name}: records no commit of this history")
            failures += 1
            continue
        changed = changes(name.split("/")[0], commit)
        if not changed:
            continue
        n_outdated += 1
        print(f"{name}: {len(changed)} changes since {commit[:7]}: {', '.join(changed[:4])}")
        for page in pages_that_show(name):
            text = page.read_text(encoding="utf-8")
            if commit[:7] not in text or content["date"] not in text:
                print(f"  {page.relative_to(ROOT)} shows it and does not name commit and date")
                failures += 1
    print(f"{n_outdated} of {len(names) + 1} results are out of date, {failures} to be corrected")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
