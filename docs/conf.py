"""Sphinx: the pages of this folder, the gallery in ../examples/gallery, the docstrings of pacsent.

`make docs` builds it with warnings as errors. Nothing is fetched, at build or view time.
"""

import os
import re
import sys
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))
os.environ.setdefault("MPLBACKEND", "Agg")

import pacsent  # noqa: E402

sys.path.insert(0, str(ROOT / "docs"))
from make_cli import command_reference  # noqa: E402
from make_html import write_live_classifier  # noqa: E402
from related import see_also  # noqa: E402

GENERATED = ROOT / "docs" / "_generated"
GENERATED.mkdir(exist_ok=True)
(GENERATED / "commands.md").write_text(command_reference(), encoding="utf-8")
write_live_classifier(GENERATED / "extra" / "classifier.html")

project = "pacsent"
author = "The pacsent developers"
copyright = "2026, the pacsent developers"
version = release = pacsent.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_generated", "make_*.py", "Thumbs.db", "sg_execution_times.rst"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 4
templates_path = ["_templates"]

autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": False}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
add_module_names = False

html_math_renderer = "mathml"  # drawn by the browser itself: no script is fetched

html_theme = "pydata_sphinx_theme"
html_title = "pacsent"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_generated/extra"]  # copied to the root of the site as it is
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
copybutton_prompt_text = "$ "  # of a session the commands alone are copied
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"
html_sidebars = {"index": []}  # every other page has the pages of its group beside it

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "min_reported_time": 1,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "plot_gallery": os.environ.get("PACSENT_GALLERY", "1") == "1",
    "doc_module": ("pacsent",),
    "backreferences_dir": None,
}
suppress_warnings = ["config.cache"]

# Pages link to files of the repository, so that they can be read there too; here they are pages.
ELSEWHERE = {
    "../src/pacsent/models/english/README.md": "card.md",
    "sentences/README.md": "sentences-card.md",
    "../src/pacsent/models/english/sentences/README.md": "sentences-card.md",
    "../CHANGELOG.md": "changes.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../examples": "gallery/index.rst",
}


FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
SHELL = re.compile(r"(\w+=\S+ )?(pacsent|python|pip|make|wget|tail|git|docker|eval|curl|uv) ")


def _with_language(fence: re.Match) -> str:
    """A block without a language is of the shell, or plain: never Python by default."""
    if fence[1]:
        return fence[0]
    language = "bash" if SHELL.match(fence[2]) else "text"
    return f"```{language}\n{fence[2]}```"


def _links_of_the_site(app, name, source):
    text = source[0]
    for there, here in ELSEWHERE.items():
        text = text.replace(f"]({there})", f"]({here})")
    # comments of the tables' generators are for the repository
    text = re.sub(r"<!-- (from|numbers|end|made).*?-->\n", "", text)
    source[0] = FENCE.sub(_with_language, text)


def _not_routing(app, what, name, member, skip, options):
    return True if name.endswith("_request") else None  # scikit-learn's plumbing


def _formulas(app, what, name, obj, options, lines):
    """Indented formulas of a docstring are shown as they stand; bars elsewhere are bars."""
    made: list[str] = []
    literal = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        if not line.strip():
            made.append(line)
            continue
        before = next((other for other in reversed(lines[:number]) if other.strip()), "")
        starts = indented and not literal and number and not lines[number - 1].strip()
        if starts and not before.startswith("    ") and not re.match(r"\s*([-*]|\d\.) ", before):
            if not before.rstrip().endswith("::"):
                made += ["::", ""]
            literal = True
        elif not indented:
            literal = False
        if not literal and "``" not in line and not line.lstrip().startswith((">>>", "...")):
            line = line.replace("|", r"\|")
        made.append(line)
    lines[:] = made


def setup(app):
    app.connect("source-read", _links_of_the_site)
    app.connect("include-read", lambda app, where, name, text: _links_of_the_site(app, name, text))
    app.connect("autodoc-skip-member", _not_routing)
    app.connect("autodoc-process-docstring", _formulas, priority=400)  # before numpydoc
    app.connect("autodoc-process-docstring", see_also, priority=600)  # after numpydoc
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def _inline(translator, node):
    translator.body.append(convert(node.astext()))
    raise SkipNode


def _block(translator, node):
    translator.body.append(convert(node.astext(), display="block"))
    raise SkipNode
