"""The report's figures by Vega-Altair: specifications for a page that carries its own runtime."""

import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pacsent.files import replacing
from pacsent.optional import install_hint
from pacsent.paper.method_rows import ROWS

# where a result does not say how many texts it was tested on
N_TEST = {"20news": 7532, "imdb": 25_000, "subj": 2_000, "mr": 2_132, "trec": 500}
_COLOURS = ["#3b7dd8", "#d9822b", "#2f9e6e", "#b0489e", "#8c6d31", "#17a2b8", "#d64545", "#7a7f87"]
_FILTER = "wanted == '' || test(regexp(wanted, 'i'), datum.method)"


class Figure(NamedTuple):
    """A figure for the page: a Vega-Lite specification and what is said below it."""

    kind: str
    dataset: str
    caption: str
    spec: dict[str, Any]


def interval(result: dict) -> tuple[float, float]:
    """Where the accuracy lies with 95 % confidence, over test texts; ± 2 sd without their number.

    >>> low, high = interval({"accuracy": 0.8, "n_test": 100, "sd": 0.0, "dataset": "x"})
    >>> round(low, 2), round(high, 2)
    (0.71, 0.87)
    """
    n = result.get("n_test") or N_TEST.get(result["dataset"])
    p = result["accuracy"]
    if not n:
        return p - 2 * result["sd"], p + 2 * result["sd"]
    z = 1.96  # Wilson's interval
    centre, width = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return (centre - width) / (1 + z * z / n), (centre + width) / (1 + z * z / n)


@cache
def bundle() -> str:
    """The runtime that draws the figures, to be put into a page."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def altair_found() -> bool:
    """Whether figures can be drawn."""
    return all(importlib.util.find_spec(name) for name in ("altair", "vl_convert"))


def require_altair() -> None:
    """Refuse early, before hours of work, where the figures cannot be drawn."""
    if not altair_found():
        raise ImportError(
            f"The figures of the report need Altair, which is not installed. "
            f"{install_hint('report')}"
        )


def figures(results: Sequence[dict], titles: dict[str, str]) -> list[Figure]:
    """Every figure there is something to draw for; empty without Altair."""
    if not altair_found():
        return []
    import altair

    of_kind: dict[str, dict[str, list[dict]]] = {}
    for result in results:
        of_kind.setdefault(result["kind"], {}).setdefault(result["dataset"], []).append(result)
    made = list(_of_datasets(altair, of_kind, titles))
    certificates = [r for found in of_kind.get("certificate", {}).values() for r in found]
    if shown := [r for r in certificates if realised(r) is not None]:
        caption = "Guaranteed and realised risk. Guessing is wrong half of the time."
        made.append(Figure("certificate", "", caption, _certificates(altair, shown, titles)))
    return made


def _of_datasets(alt, of_kind, titles) -> Iterator[Figure]:
    scored = of_kind.get("classification", {})
    known = [name for name in titles if name in scored] + sorted(set(scored) - set(titles))
    for name in known:
        title, found = titles.get(name, name), scored[name]
        n = found[0].get("n_test") or N_TEST.get(name)
        caption = f"{title}: accuracy"
        if n or any(r["sd"] for r in found):
            caption += " with 95 % intervals"
            caption += f" ({n:,} test texts)" if n else " (± 2 sd over seeds)"
        caption += "; hollow diamonds: the paper's." * any(r["paper"] is not None for r in found)
        yield Figure("accuracy", name, caption, _accuracy(alt, found))
    for name, found in of_kind.get("few-labels", {}).items():
        caption = f"{titles.get(name, name)}: accuracy against the number of labels, ± sd of draws"
        yield Figure("few-labels", name, caption, _few_labels(alt, found))
    for name in known:
        if curves := [r for r in scored[name] if len(r["lam_curve"]) > 1]:
            caption = f"{titles.get(name, name)}: cross-validated accuracy against λ"
            caption += "; dashed: roles swapped (i-)" * any(
                r["label"].startswith("i-") for r in curves
            )
            yield Figure("lam", name, caption, _lam(alt, curves))
    for name in known:
        if bins := [r for r in scored[name] if r["details"].get("variance_by_length")]:
            caption = f"{titles.get(name, name)}: posterior variance against length"
            yield Figure("variance", name, caption, _variance(alt, bins))
    for name in known:
        if timed := [r for r in scored[name] if r["seconds"].get("encode")]:
            caption = (
                f"{titles.get(name, name)}: accuracy against the seconds that reading the texts "
                "took; larger: more numbers a text"
            )
            yield Figure("speed", name, caption, _speed(alt, timed))
    for name, found in of_kind.get("map", {}).items():
        caption = f"{titles.get(name, name)}: test documents as {found[0]['label']} vectors"
        yield Figure("map", name, caption, _map(alt, found[0]))


def _finished(alt, chart, height) -> dict[str, Any]:
    """Width from the page; the methods that the page's filter wants."""
    wanted = alt.param(name="wanted", value="")
    return chart.properties(width="container", height=height).add_params(wanted).to_dict()


def _legend(alt, n):
    columns = alt.ExprRef(f"width < 340 ? 2 : {2 if n <= 4 else 3}")
    limit = alt.ExprRef("width < 340 ? 95 : 150")
    return alt.Legend(orient="bottom", columns=columns, title=None, labelLimit=limit)


def _group(row) -> str:
    if row in ROWS and ROWS[row].in_paper:
        return "the paper's"
    return "others"


def _accuracy(alt, found):
    values = []
    for r in sorted(found, key=lambda r: -r["accuracy"]):
        low, high = interval(r)
        values.append({"method": r["label"], "accuracy": r["accuracy"], "low": low, "high": high,
                       "paper": r["paper"], "group": _group(r["row"])})  # fmt: skip
    order = list(dict.fromkeys(v["method"] for v in values))
    base = alt.Chart(alt.Data(values=values)).transform_filter(_FILTER)
    axis = alt.Axis(title=None, labelLimit=180)
    y = alt.Y("method:N", sort=order, axis=axis)
    hint = [alt.Tooltip("method:N"), *[alt.Tooltip(f"{name}:Q", format=".4f")
            for name in ("accuracy", "low", "high", "paper")]]  # fmt: skip
    scale = alt.Scale(zero=False, nice=True)
    color = alt.Color("group:N", scale=alt.Scale(range=_COLOURS), legend=_legend(alt, 2))
    bars = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        y=y, x=alt.X("low:Q", scale=scale, title="test accuracy"), x2="high:Q", color=color
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=y, x=alt.X("accuracy:Q", scale=scale), color=color, tooltip=hint
    )
    paper = base.transform_filter("isValid(datum.paper)").mark_point(
        shape="diamond", filled=False, size=80, strokeWidth=1.6, color="#888"
    ).encode(y=y, x=alt.X("paper:Q", scale=scale), tooltip=hint)  # fmt: skip
    return _finished(alt, bars + dots + paper, alt.Step(21))


def _lines(alt, values, x, y, n):
    """Lines by method with points to hover; a click on the legend singles one out.

    A method and its twin with the roles swapped share a colour; the twin's line is dashed.
    """
    single = alt.selection_point(fields=["family"], bind="legend")
    for value in values:
        value["family"] = value["method"].removeprefix("i-")
        value["roles"] = "swapped (i-)" if value["family"] != value["method"] else "as named"
    color = alt.Color("family:N", scale=alt.Scale(range=_COLOURS * 4), legend=_legend(alt, n))
    base = alt.Chart(alt.Data(values=values)).transform_filter(_FILTER)
    lit = alt.condition(single, alt.value(1), alt.value(0.12))
    lines = base.mark_line(strokeWidth=2).encode(
        x=x, y=y, color=color, opacity=lit, detail="method:N"
    )
    if len({value["roles"] for value in values}) > 1:
        dashes = alt.Scale(domain=["as named", "swapped (i-)"], range=[[1, 0], [5, 4]])
        lines = lines.encode(strokeDash=alt.StrokeDash("roles:N", scale=dashes, legend=None))
    shown = [key for key in values[0] if key not in ("family", "roles")]
    hint = [alt.Tooltip(f"{key}:{'N' if key == 'method' else 'Q'}") for key in shown]
    dots = base.mark_point(filled=True, size=45).encode(
        x=x, y=y, color=color, opacity=lit, tooltip=hint
    )
    return (lines + dots.add_params(single)), base, color, lit


def _few_labels(alt, found):
    values = [
        {"method": r["label"], "labels": point["n_labels"], "accuracy": round(point["accuracy"], 4),
         "low": point["accuracy"] - point["sd"], "high": point["accuracy"] + point["sd"]}
        for r in found
        for point in r["curve"]
    ]  # fmt: skip
    axis = alt.Axis(values=sorted({v["labels"] for v in values}), format=",", labelOverlap=True)
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("labels:Q", scale=scale, title="labelled examples", axis=axis)
    y = alt.Y("accuracy:Q", scale=alt.Scale(zero=False), title="test accuracy")
    chart, base, color, lit = _lines(alt, values, x, y, len(found))
    bars = base.mark_rule(strokeWidth=1).encode(
        x=x, y="low:Q", y2="high:Q", color=color, opacity=lit
    )
    return _finished(alt, bars + chart, 340)


def _lam(alt, curves):
    values = [
        {"method": r["label"], "lam": point["lam"], "accuracy": round(point["cv_accuracy"], 4)}
        for r in curves
        for point in r["lam_curve"]
    ]
    axis = alt.Axis(values=sorted({v["lam"] for v in values}), labelOverlap=True)
    x = alt.X("lam:Q", scale=alt.Scale(type="log", base=2), title="λ", axis=axis)
    y = alt.Y("accuracy:Q", scale=alt.Scale(zero=False), title="cross-validated accuracy")
    return _finished(alt, _lines(alt, values, x, y, len(curves))[0], 340)


def _variance(alt, found):
    values = [
        {"method": r["label"], "words": point["n_tokens"], "variance": point["variance"]}
        for r in found
        for point in r["details"]["variance_by_length"]
    ]
    log = alt.Scale(type="log")
    x = alt.X("words:Q", scale=log, title="known words in the document")
    y = alt.Y("variance:Q", scale=log, title="posterior variance")
    return _finished(alt, _lines(alt, values, x, y, len(found))[0], 340)


def _speed(alt, found):
    values = [
        {"method": r["label"], "seconds": max(r["seconds"]["encode"], 1e-3),
         "accuracy": round(r["accuracy"], 4), "numbers": r["details"].get("n_features") or 0}
        for r in found
    ]  # fmt: skip
    base = alt.Chart(alt.Data(values=values)).transform_filter(_FILTER)
    low, high = (f(math.log10(v["seconds"]) for v in values) for f in (min, max))
    ends = [10 ** math.floor(low), 10 ** max(math.ceil(high), math.floor(low) + 1)]
    powers = [10.0**n for n in range(math.floor(low), round(math.log10(ends[1])) + 1)]
    x = alt.X("seconds:Q", scale=alt.Scale(type="log", domain=ends, nice=False),
              title="seconds to read the texts", axis=alt.Axis(values=powers))  # fmt: skip
    y = alt.Y("accuracy:Q", scale=alt.Scale(zero=False), title="test accuracy")
    hint = ["method:N", "seconds:Q", "accuracy:Q", "numbers:Q"]
    size = alt.Size("numbers:Q", scale=alt.Scale(type="sqrt", range=[40, 400]), legend=None)
    chart = base.mark_point(filled=True, opacity=0.75, color=_COLOURS[0]).encode(
        x=x, y=y, size=size, tooltip=hint
    )
    for side, named in _names_beside(values, ends).items():
        text = alt.Chart(alt.Data(values=named)).transform_filter(_FILTER)
        away = 11 if side == "left" else -11
        chart += text.mark_text(align=side, dx=away, fontSize=12).encode(x=x, y=y, text="method:N")
    return _finished(alt, chart, 340)


def _names_beside(values: list[dict], ends: Sequence[float]) -> dict[str, list[dict]]:
    """The best methods whose names have room, by the side on which a name begins ("left") or ends.

    Measured on the plane of a phone, so that names overlap nowhere; the rest is for hovering.
    """
    width, height = 270, 320
    lows, highs = (f(v["accuracy"] for v in values) for f in (min, max))

    def place(value):
        share = math.log10(value["seconds"] / ends[0]) / math.log10(ends[1] / ends[0])
        return width * share, height * (highs - value["accuracy"]) / ((highs - lows) or 1)

    dots = [(x - 5, x + 5, y) for x, y in map(place, values)]
    taken: list[tuple[float, float, float]] = []
    named: dict[str, list[dict]] = {"left": [], "right": []}
    for value in sorted(values, key=lambda v: -v["accuracy"]):
        x, y = place(value)
        long = 7 * len(value["method"]) + 12
        side = "left" if x + long <= width else "right"
        left, right = (x + 5.1, x + long) if side == "left" else (x - long, x - 5.1)
        met = (abs(y - v) < 12 and left < r and a < right for a, r, v in taken + dots)
        if left < 0 or any(met):
            continue
        taken.append((left, right, y))
        named[side].append(value)
        if len(taken) == 6:
            break
    return {side: found for side, found in named.items() if found}


def _map(alt, r):
    texts = r.get("texts") or [""] * len(r["x"])
    values = [
        {"x": x, "y": y, "class": r["classes"][label], "text": text}
        for x, y, label, text in zip(r["x"], r["y"], r["labels"], texts)
    ]
    single = alt.selection_point(fields=["class"], bind="legend")
    lit = alt.condition(single, alt.value(0.8), alt.value(0.06))
    place = {"axis": None, "scale": alt.Scale(zero=False)}
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_circle(size=38)
        .encode(
            x=alt.X("x:Q", **place),
            y=alt.Y("y:Q", **place),
            color=alt.Color("class:N", scale=alt.Scale(range=_COLOURS * 3),
                            legend=_legend(alt, len(r["classes"]))),
            opacity=lit,
            tooltip=["class:N", "text:N"] if any(texts) else ["class:N"],
        )
        .add_params(single)
        .interactive()
    )  # fmt: skip
    return _finished(alt, chart, 420)


def realised(r: dict) -> float | None:
    """The true risk where it is known, else that on what was held out."""
    true = r.get("true_risk")
    return r.get("held_out_risk") if true is None else true


def _certificates(alt, found, titles):
    several = len({r["dataset"] for r in found}) > 1
    values = [
        {"method": r["label"] + f", {titles.get(r['dataset'], r['dataset'])}" * several,
         "realised": round(realised(r), 4), "guaranteed": round(r["risk_bound"], 4)}
        for r in found
    ]  # fmt: skip
    base = alt.Chart(alt.Data(values=values)).transform_filter(_FILTER)
    y = alt.Y("method:N", sort=None, axis=alt.Axis(title=None, labelLimit=180))
    hint = ["method:N", "realised:Q", "guaranteed:Q"]
    lines = base.mark_rule(color="#888", strokeWidth=2).encode(
        y=y, x=alt.X("realised:Q", title="risk", scale=alt.Scale(zero=False)), x2="guaranteed:Q"
    )
    both = base.transform_fold(["realised", "guaranteed"], as_=["what", "risk"])
    dots = both.mark_point(filled=True, size=80, opacity=1).encode(
        y=y, x="risk:Q", tooltip=hint,
        color=alt.Color("what:N", scale=alt.Scale(domain=["realised", "guaranteed"],
                        range=[_COLOURS[0], _COLOURS[6]]), legend=_legend(alt, 2)),
    )  # fmt: skip
    guess = alt.Chart(alt.Data(values=[{"guessing": 0.5}]))
    rule = guess.mark_rule(strokeDash=[4, 4], color="#888").encode(x="guessing:Q")
    return _finished(alt, lines + dots + rule, alt.Step(30))


def coverage(replicates: dict[str, Any], path: str | os.PathLike) -> None:
    """True risk against claimed bound, ours and the paper's; points below the line are broken.

    `replicates` maps a title to the `paper.simulation.Replicates` of a panel. The suffix of `path`
    is .png, .svg or .pdf.
    """
    require_altair()
    import altair as alt
    import vl_convert

    panels = []
    for title, r in replicates.items():
        values: list[dict[str, Any]] = [
            {"bound": name, "true": float(true), "claimed": float(claimed)}
            for name, trues, all_claimed in (("the paper's bound", r.paper_true, r.paper_claimed),
                                             ("our certificate", r.true, r.claimed))
            for true, claimed in zip(trues, all_claimed)
        ]  # fmt: skip
        ends = [value[key] for value in values for key in ("true", "claimed")]
        scale = alt.Scale(domain=[min(ends) - 0.02, min(1.0, max(ends) + 0.02)], nice=False)
        x = alt.X("true:Q", scale=scale, title="true risk")
        y = alt.Y("claimed:Q", scale=scale, title="claimed bound")
        color = alt.Color("bound:N", scale=alt.Scale(range=_COLOURS), legend=_legend(alt, 2))
        dots = alt.Chart(alt.Data(values=values)).mark_circle(size=12, opacity=1)
        line = alt.Chart(alt.Data(values=[{"true": v, "claimed": v} for v in scale.domain]))
        layers = line.mark_line(color="#888").encode(x=x, y=y) + dots.encode(x=x, y=y, color=color)
        panels.append(layers.properties(width=220, height=220, title=title))
    spec = alt.concat(*panels, columns=3).to_dict()
    suffix = Path(path).suffix[1:] or "png"
    if suffix not in ("png", "svg", "pdf"):
        raise ValueError(f"The figure must end in .png, .svg or .pdf. Got {str(path)!r} instead.")
    drawn = getattr(vl_convert, f"vegalite_to_{suffix}")(spec)
    with replacing(path) as file:
        file.write(drawn.encode() if suffix == "svg" else drawn)
