"""Every code name in docs/notation.md exists."""

import ast
import re
from pathlib import Path

import pacsent

PAGE = Path(__file__).parents[1] / "docs" / "notation.md"
NAME = re.compile(r"`([A-Za-z_][\w.]*)`")


def names_in_code():
    """Every identifier of the package: variables, arguments, attributes, functions, modules."""
    found = set()
    for path in Path(pacsent.__file__).parent.rglob("*.py"):
        found.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text())):
            for field in ("id", "arg", "attr", "name"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    found.add(value)
    return found


def test_every_code_name_on_the_page_exists():
    names = NAME.findall(PAGE.read_text())
    assert len(names) > 50
    known = names_in_code()
    missing = {name for name in names for part in name.split(".") if part not in known}
    assert not missing


def test_dotted_names_lead_somewhere():
    for name in NAME.findall(PAGE.read_text()):
        first, *rest = name.split(".")
        if not rest:
            continue
        homes = (pacsent, pacsent.maths, pacsent.encoders, pacsent.guarantees)
        home = next(getattr(place, first) for place in homes if hasattr(place, first))
        [attribute] = rest
        fields = getattr(home, "__dataclass_fields__", {})
        learned = attribute.endswith("_")  # set by fit: known to the test above
        assert hasattr(home, attribute) or attribute in fields or learned, name
