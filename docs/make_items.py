"""Write docs/paper-items.md, the paper item by item, from `pacsent.paper.manifest`; `--check` only
compares.
"""
# ruff: noqa: E501

import argparse
import json
from collections import Counter
from pathlib import Path

from pacsent.paper.manifest import ITEMS, STATES, Item

PAGE = Path(__file__).with_name("paper-items.md")
REPRODUCTION = "benchmarks/results/reproduce"

# Where the item stands in arXiv:1902.04247: section, and the number that the paper prints.
PLACES = {
    1: "2.1, eq. 1 and 2",
    2: "2.2, eq. 3 and 4",
    3: "2.3",
    4: "2.3, Theorem 1, eq. 5",
    5: "2.3",
    6: "3.1, eq. 6 and 7",
    7: "3.1, eq. 8 to 11",
    8: "3.1",
    9: "3.1",
    10: "3.1",
    11: "3.1",
    12: "3.2, Theorem 2, eq. 12",
    13: "3.2",
    14: "3.3",
    15: "3.3, eq. 13",
    16: "3.3, eq. 14",
    17: "3.3, Corollaries 2.1 and 2.2",
    18: "3.3, eq. 15",
    19: "3.3 and A.3",
    20: "3.3, eq. 16",
    21: "3.3, eq. 17",
    22: "3.3",
    23: "3.4, eq. 18",
    24: "3.4, Corollary 2.3",
    25: "4.1, eq. 19",
    26: "4.1, Theorem 3, eq. 20",
    27: "4.1, eq. 21",
    28: "4.1, eq. 22",
    29: "4.1",
    30: "4.2",
    31: "4.2, Table 1",
    32: "5.1",
    33: "5.1 and 5.2",
    34: "5.2, Table 2",
    35: "5.2",
    36: "5.2",
    37: "5.2",
    38: "5.2",
    39: "5.2",
    40: "5.2",
    41: "5.2 and 5.3",
    42: "5.2",
    43: "5.2",
    44: "5.4, Table 3",
    45: "5.4 and 6",
    46: "6",
    47: "6",
    48: "A.1, eq. 23 to 36",
    49: "A.2, eq. 37 and 39",
    50: "A.3, eq. 60",
}

HEAD = """# The paper, item by item

Kento Nozawa and Issei Sato, *PAC-Bayes Analysis of Sentence Representation*, arXiv:1902.04247, 2019, from its first to its last
line: {n_items} items, each with its place in the paper, what pacsent does, where the code is, and one command. A test runs every
command and compares its value with one that was computed otherwise.

{counts}

"As printed" means that the ordinary code computes what the paper prints; "corrected", that it has a corrected form and that
`pacsent.paper.printed` has the printed one ([errata](errata.md)); "ours", that the paper leaves it open
or that we differ on purpose.

Commands are Python expressions, or lines for the shell that begin with `pacsent`. Their names are those of
`manifest.namespace()`; `ex` is a small worked example. Any of them runs like this:

```python
from pacsent.paper import manifest

item = manifest.ITEMS[15]  # item 16
print(item.title)
print(manifest.run(item))  # printed and corrected
```

```output
{output}
```

See also: [how to get data and vectors](data.md), [the table](benchmarks.md), [methods](methods.md), [certificates](certificates.md).

## Overview

| # | in the paper | item | state |
|---|---|---|---|
"""

TABLE_1 = """## Table 1, complete

What each task predicts from what. $x_w$ is the one-hot vector of a word, $\\hat I$ and $\\hat O$ are the trained input and output
vectors, $\\sigma$ is the logistic function. "Prior" is the matrix of the prior means. The paper's row of Skip-gram repeats its loss
in the column of the prior; Skip-gram has none.

| task | input | output | hypothesis | loss | prior |
|---|---|---|---|---|---|
| Skip-gram | $w_t, w_c$ | binary | $\\sigma(i_{w_t}^\\top o_{w_c})$ | negative sampling | none |
| PB-L2 | $x_w$ | $\\hat\\imath_w$ | $h_S$ | squared | $\\hat O$ |
| i-PB-L2 | $x_w$ | $\\hat o_w$ | $h_S$ | squared | $\\hat I$ |
| PB-IDF-L2 | $x_w$ | $\\hat\\imath_w$ | $h_S$ | weighted squared | $\\hat O$ |
| i-PB-IDF-L2 | $x_w$ | $\\hat o_w$ | $h_S$ | weighted squared | $\\hat I$ |
| PB-neg | $S, x_w$ | binary | $\\sigma(h_S^\\top\\hat Ix_w)$ | negative sampling | $\\hat O$ |
| i-PB-neg | $S, x_w$ | binary | $\\sigma(h_S^\\top\\hat Ox_w)$ | negative sampling | $\\hat I$ |
| w-PB-neg | $S, x_w$ | binary | $\\sigma((\\frac1n\\sum_{v\\in S}h_v)^\\top\\hat Ix_w)$ | negative sampling | $\\hat O$ |
| i-w-PB-neg | $S, x_w$ | binary | $\\sigma((\\frac1n\\sum_{v\\in S}h_v)^\\top\\hat Ox_w)$ | negative sampling | $\\hat I$ |

Every name is one of `pacsent.list_encoders()`: `make_encoder("i-PB-neg", words)`.

"""


def block(item: Item) -> str:
    """The section of one item."""
    title = item.title.replace("{", "").replace("}", "")  # braces are markup in a heading
    lines = [
        f"### {item.number}. {title}",
        f"Section {PLACES[item.number]} · *{item.state}*"
        + (f" · `{item.code}`" if item.code else ""),
    ]
    if item.note:
        lines.append(item.note)
    if REPRODUCTION in item.code:
        run_path = PAGE.parents[1] / REPRODUCTION / "run.json"
        run = json.loads(run_path.read_text(encoding="utf-8"))
        lines.append(f"Measured: commit {run['added'][:7]} of {run['date']}.")
    lines.append(f"```\n{item.command}\n```")
    return "\n\n".join(lines) + "\n"


def page() -> str:
    from pacsent.paper import manifest

    counts = Counter(item.state for item in ITEMS)
    state_counts = ", ".join(f"{counts[state]} {state}" for state in STATES)
    output = f"{ITEMS[15].title}\n{manifest.run(ITEMS[15])}"
    text = HEAD.format(n_items=len(ITEMS), counts=f"**{state_counts}.**", output=output)
    for item in ITEMS:
        title = item.title.replace("|", "\\|")
        state = item.state.replace(" ", "\u00a0")  # on one line
        row = [f"[{item.number}](#item-{item.number})", PLACES[item.number], title, state]
        text += "| " + " | ".join(row) + " |\n"
    sections = [f"(item-{item.number})=\n{block(item)}" for item in ITEMS]
    return text + "\n" + TABLE_1 + "## The items\n\n" + "\n".join(sections)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = page()
    if check and PAGE.read_text(encoding="utf-8") != made:
        raise SystemExit("paper-items.md is out of date: make pages")
    PAGE.write_text(made, encoding="utf-8")
