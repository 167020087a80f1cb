"""Draw docs/figures/architecture.svg from the imports of src/pacsent: who stands on whom.

A package stands above all packages that it imports. An arrow is a direct import for which there is
no longer way through other packages, so that the picture has few of them. `--check` only compares.
"""

import argparse
import ast
from graphlib import TopologicalSorter
from pathlib import Path

from make_paper_figures import FIGURES, INK, LINE, OURS, ROOT, SOFT, drawing, text

PACKAGE = ROOT / "src" / "pacsent"
MODULES = "single modules"  # arrays.py, files.py, threads.py, ...
PURPOSES = {
    "cli": "the shell: parse, call one library function, print",
    "demo": "the pages of `make demo`",
    "web": "HTTP server, labelling page, exported page, map of texts",
    "scale": "files to files on all cores of a machine, or on Ray",
    "paper": "as printed beside corrected, encoder certificates, tables",
    "predict": "CertifiedClassifier, prediction sets, abstention, thresholds",
    "search": "Index and its certificate, BM25, filters, clusters",
    "classify": "TextClassifier, explanations, label quality, check_labels",
    "sentences": "sentence posteriors and their solvers, encoders, distillation",
    "words": "vocabulary, Skip-gram, both embedding matrices, formats",
    "certify": "labels in, statements out: certificates, judges, drift",
    "text": "texts from objects, tables and files; tokens; n-grams",
    "storage": "model folders: save, load, verify",
    "bounds": "every bound as a pure function; the division of delta",
    "kernels": "compiled loops, in C, with a NumPy twin of each",
    MODULES: "arrays, files, threads, progress, registry, ...",
}
ROW_HEIGHT, BOX_HEIGHT, BOX_LEFT, BOX_WIDTH, TOP = 44, 34, 250, 500, 16


def imported_packages() -> dict[str, set[str]]:
    """The packages that each package imports, those of functions and for type checkers as well."""
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"models"}
    graph: dict[str, set[str]] = {package: set() for package in (*packages, MODULES)}
    for path in PACKAGE.rglob("*.py"):
        first = path.relative_to(PACKAGE).parts[0]
        if path.name in ("__init__.py", "__main__.py") and path.parent == PACKAGE:
            continue  # what users import is not a floor of its own
        owner = first if first in packages else MODULES
        for name in imported_names(path):
            other = name.split(".")[1] if "." in name else ""
            if (PACKAGE / other).is_dir() and other in packages:
                graph[owner].add(other)
            elif (PACKAGE / f"{other}.py").exists():
                graph[owner].add(MODULES)
        graph[owner].discard(owner)
    return graph


def imported_names(path: Path) -> list[str]:
    """Full names of what a file imports from pacsent."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name for name in names if name.startswith("pacsent.")]


def all_below(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Everything that a package stands on, directly or through others."""
    below: dict[str, set[str]] = {}
    for package in TopologicalSorter(graph).static_order():
        below[package] = set(graph[package]).union(*(below[other] for other in graph[package]))
    return below


def nearest_below(graph: dict[str, set[str]]) -> dict[str, list[str]]:
    """The imports of each package that no other of its imports leads to."""
    below = all_below(graph)
    return {
        package: sorted(
            other
            for other in others
            if not any(other in below[between] for between in others - {other})
        )
        for package, others in graph.items()
    }


def figure(graph: dict[str, set[str]]) -> str:
    """A column of boxes, the highest package on top, with arrows along its left side."""
    below = all_below(graph)
    names = sorted(graph, key=lambda name: (-len(below[name]), name))
    middle_of = {name: TOP + ROW_HEIGHT * row + BOX_HEIGHT / 2 for row, name in enumerate(names)}

    parts = [ARROW_HEAD]
    for name, others in sorted(nearest_below(graph).items()):
        for other in others:
            parts.append(arrow(middle_of[name], middle_of[other]))
    for name in names:
        parts += box(name, middle_of[name])
    height = TOP + ROW_HEIGHT * len(names)
    return drawing(BOX_LEFT + BOX_WIDTH + 16, height, "Packages of pacsent by import", parts)


ARROW_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{OURS}"/></marker></defs>'
)


def box(name: str, middle: float) -> list[str]:
    """The name of a package beside its purpose."""
    top = middle - BOX_HEIGHT / 2
    return [
        f'<rect x="{BOX_LEFT}" y="{top:.1f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
        f'fill="none" stroke="{LINE}"/>',
        text(BOX_LEFT + 12, middle + 4, name, size=13, fill=INK),
        text(BOX_LEFT + 130, middle + 4, PURPOSES[name], size=12, fill=SOFT),
    ]


def arrow(start: float, end: float) -> str:
    """A curve from one box down to another; the further, the wider."""
    bow = BOX_LEFT - min(16 + (end - start) * 0.42, BOX_LEFT - 8)
    return (
        f'<path d="M{BOX_LEFT},{start + 5:.1f} C{bow:.1f},{start + 5:.1f} {bow:.1f},'
        f'{end - 5:.1f} {BOX_LEFT},{end - 5:.1f}" fill="none" stroke="{OURS}" '
        'stroke-width="1.3" marker-end="url(#head)"/>'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check

    drawn = figure(imported_packages())
    path = FIGURES / "architecture.svg"
    if check and (not path.exists() or path.read_text(encoding="utf-8") != drawn):
        raise SystemExit(f"{path.name} is out of date: make pages")
    path.write_text(drawn, encoding="utf-8")
