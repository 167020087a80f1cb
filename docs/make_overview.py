"""Draw docs/figures/overview-light.svg and overview-dark.svg, the first figure of README and site;
`--check` only compares.
"""

import argparse
from pathlib import Path

FIGURES = Path(__file__).with_name("figures")
COLORS = {
    "light": {
        "ink": "#1f2328",
        "soft": "#59636e",
        "line": "#c8ced6",
        "box": "#f6f8fa",
        "input": "#1f6feb",
        "output": "#bc4c00",
        "answer": "#1a7f37",
        "shade": "#dbe9fd",
        "good": "#e6f4ea",
    },
    "dark": {
        "ink": "#e6edf3",
        "soft": "#9aa4af",
        "line": "#3d444d",
        "box": "#161b22",
        "input": "#58a6ff",
        "output": "#ffa657",
        "answer": "#56d364",
        "shade": "#1b3a63",
        "good": "#12361f",
    },
}
WORDS = ("paris", "beautiful", "cities")
DESCRIPTION = (
    "The words of a text have input and output vectors. The output vectors make the prior, the "
    "input vectors the data, and both a posterior N(mu, sigma squared I) for the text. The "
    "PAC-Bayes bound limits its risk by its errors and its divergence from the prior. With labels "
    "on texts that nothing was fitted on, the same inequality certifies a classifier."
)


def drawing(color: dict[str, str]) -> str:
    """The figure in these colors."""
    parts: list[str] = []

    def text(x, y, content, size=15, fill="ink", anchor="middle", style=""):
        parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" fill="{color[fill]}" '
            f'text-anchor="{anchor}" {style}>{content}</text>'
        )

    def box(x, y, width, height, fill="box", stroke="line"):
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" '
            f'fill="{color[fill]}" stroke="{color[stroke]}" stroke-width="1.5"/>'
        )

    def arrow(x1, y1, x2, y2):
        parts.append(
            f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{color["soft"]}" stroke-width="2" '
            'fill="none" marker-end="url(#head)"/>'
        )

    def dots(x, y, fill, seed):
        for i in range(5):
            shade = (0.25, 0.9, 0.5, 0.7, 0.35)[(i * seed + seed) % 5]
            parts.append(
                f'<circle cx="{x + 13 * i}" cy="{y}" r="5" fill="{color[fill]}" '
                f'fill-opacity="{shade}"/>'
            )

    bold = 'font-weight="600"'
    italic = 'font-style="italic"'

    # Upper row: a text, the vectors of its words, its posterior.
    box(10, 34, 150, 132)
    text(85, 22, "a text", fill="soft")
    for i, word in enumerate(WORDS):
        text(85, 72 + 34 * i, word, size=17)
    arrow(166, 100, 196, 100)

    box(204, 34, 246, 132)
    text(327, 22, "vectors of its words", fill="soft")
    text(266, 58, "input", fill="input", size=15)
    text(388, 58, "output", fill="output", size=15)
    for i in range(len(WORDS)):
        dots(240, 80 + 32 * i, "input", (2, 3, 4)[i])
        dots(362, 80 + 32 * i, "output", (3, 1, 2)[i])
    arrow(456, 100, 486, 100)

    box(494, 34, 216, 132)
    text(602, 22, "its posterior", fill="soft")
    parts.append(
        f'<circle cx="560" cy="92" r="36" fill="none" stroke="{color["output"]}" '
        'stroke-width="2" stroke-dasharray="5 4"/>'
        f'<circle cx="612" cy="84" r="24" fill="{color["shade"]}" stroke="{color["input"]}" '
        'stroke-width="2"/>'
        f'<circle cx="612" cy="84" r="3.5" fill="{color["input"]}"/>'
        f'<circle cx="560" cy="92" r="3.5" fill="{color["output"]}"/>'
    )
    text(546, 150, "prior", fill="output")
    text(640, 150, "N(μ, σ²I)", fill="input")

    # Lower row: the bound and what it certifies.
    arrow(602, 172, 602, 202)
    box(330, 210, 380, 116)
    text(520, 238, "the bound (Theorem 1)", fill="soft")
    text(520, 270, "risk  ≤  Φ⁻¹( errors + (KL + ln 1/δ) / λ )", size=17, style=bold)
    text(520, 302, "KL = 0 on texts that were held out", fill="soft", style=italic)
    arrow(324, 268, 294, 268)
    box(10, 210, 276, 116, fill="good", stroke="answer")
    text(148, 238, "your labelled texts", fill="soft")
    text(148, 268, "a certified answer", size=19, fill="answer", style=bold)
    text(148, 300, "at most ε wrong, confidence 1 − δ", size=15)

    body = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 336" role="img" \
font-family="system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif">
<title>From a text to a certified answer</title>
<desc>{DESCRIPTION}</desc>
<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="6" markerHeight="6" \
orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{color["soft"]}"/></marker></defs>
{body}
</svg>
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for scheme, colors in COLORS.items():
        path = FIGURES / f"overview-{scheme}.svg"
        made = drawing(colors)
        if check and path.read_text(encoding="utf-8") != made:
            raise SystemExit(f"{path.name} is out of date: make pages")
        path.write_text(made, encoding="utf-8")
