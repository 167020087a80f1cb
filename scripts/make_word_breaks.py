"""Make the table of word breaks in the package, and the cases of its test, from Unicode's files.

    python scripts/make_word_breaks.py FOLDER

FOLDER holds auxiliary/WordBreakProperty.txt, auxiliary/WordBreakTest.txt and emoji/emoji-data.txt
of one version of the Unicode Character Database (Debian's package `unicode-data` has them).
"""

import lzma
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "pacsent" / "text" / "word_breaks.txt"
CASES = ROOT / "tests" / "data" / "word_breaks.txt.xz"
LETTERS = {
    "CR": "C", "LF": "L", "Newline": "N", "Extend": "X", "Format": "X", "ZWJ": "Z",
    "Katakana": "K", "Hebrew_Letter": "H", "ALetter": "A", "Single_Quote": "q",
    "Double_Quote": "d", "MidNumLet": "b", "MidLetter": "l", "MidNum": "m", "Numeric": "9",
    "ExtendNumLet": "E", "Regional_Indicator": "R", "WSegSpace": "W",
}  # fmt: skip


def points(path, names):
    """Code point -> name of its property, for the names wanted."""
    found = {}
    for line in path.read_text("utf-8").splitlines():
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if len(fields) == 2 and fields[1] in names:
            first, _, last = fields[0].partition("..")
            found |= dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), fields[1])
    return found


def main():
    folder = Path(sys.argv[1])
    properties = folder / "auxiliary" / "WordBreakProperty.txt"
    classes = {p: LETTERS[name] for p, name in points(properties, LETTERS).items()}
    for p in points(folder / "emoji" / "emoji-data.txt", {"Extended_Pictographic"}):
        classes[p] = {"A": "B", None: "P"}[classes.get(p)]
    version = re.search(r"-([\d.]+)\.txt", properties.read_text("utf-8")).group(1)
    lines = [f"# Unicode {version}: Word_Break, one letter a class; made by make_word_breaks.py"]
    runs = []
    for p in sorted(classes):
        if runs and runs[-1][1] == p - 1 and runs[-1][2] == classes[p]:
            runs[-1][1] = p
        else:
            runs.append([p, p, classes[p]])
    lines += [f"{first:x} {last - first:x} {letter}" for first, last, letter in runs]
    TABLE.write_text("\n".join(lines) + "\n")
    cases = (folder / "auxiliary" / "WordBreakTest.txt").read_text("utf-8").splitlines()
    kept = [line.split("#")[0].strip() for line in cases]
    text = "\n".join([f"# Unicode {version}", *filter(None, kept)])
    CASES.write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{TABLE.name}: {len(runs)} ranges; {CASES.name}: {len(list(filter(None, kept)))} cases")


if __name__ == "__main__":
    main()
