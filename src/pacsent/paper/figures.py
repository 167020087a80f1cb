"""Charts of the report as Vega-Lite specifications, by Altair."""

import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from pacsent.optional import install_hint
from pacsent.paper.method_rows import ROWS

# Test texts of each dataset, for results that do not record their number.
N_TEST = {"20news": 7532, "imdb": 25_000, "subj": 2_000, "mr": 2_132, "trec": 500}
_COLORS = ["#3b7dd8", "#d9822b", "#2f9e6e", "#b0489e", "#8c6d31", "#17a2b8", "#d64545", "#7a7f87"]
# `wanted` is the parameter that the filter box of the page sets.
_NAME_FILTER = "wanted == '' || test(regexp(wanted, 'i'), datum.method)"


class Figure(NamedTuple):
    """A chart: what it is about, its caption and its Vega-Lite specification."""

    kind: str
    dataset: str
    caption: str
    spec: dict[str, Any]


def n_test_of(result: dict) -> int | None:
    """Number of test texts of a result; None if it is unknown.

    >>> n_test_of({"dataset": "subj"}), n_test_of({"dataset": "x", "n_test": 7})
    (2000, 7)
    """
    return result.get("n_test") or N_TEST.get(result["dataset"])


def accuracy_interval(result: dict) -> tuple[float, float]:
    """Wilson's 95% interval of an accuracy; ± 2 sd if the number of test texts is unknown.

    >>> low, high = accuracy_interval({"accuracy": 0.8, "n_test": 100, "sd": 0.0, "dataset": "x"})
    >>> round(low, 2), round(high, 2)
    (0.71, 0.87)
    """
    n = n_test_of(result)
    p = result["accuracy"]
    if not n:
        return p - 2 * result["sd"], p + 2 * result["sd"]
    z = 1.96
    center, width = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return (center - width) / (1 + z * z / n), (center + width) / (1 + z * z / n)


@cache
def chart_runtime() -> str:
    """JavaScript that draws the charts, for a page that works offline."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")


def altair_found() -> bool:
    """Whether charts can be drawn."""
    return all(importlib.util.find_spec(name) for name in ("altair", "vl_convert"))


def require_altair() -> None:
    """Raise ImportError early, before hours of work, if the charts cannot be drawn."""
    if not altair_found():
        raise ImportError(f"Charts need Altair, which is not installed. {install_hint('report')}")


def figures(results: Sequence[dict], titles: dict[str, str]) -> list[Figure]:
    """All charts for which there are results; empty without Altair."""
    if not altair_found():
        return []
    by_kind: dict[str, dict[str, list[dict]]] = {}
    for result in results:
        by_kind.setdefault(result["kind"], {}).setdefault(result["dataset"], []).append(result)
    charts = []
    scored = by_kind.get("classification", {})
    for name in [n for n in titles if n in scored] + sorted(set(scored) - set(titles)):
        title, of_dataset = titles.get(name, name), scored[name]
        n = n_test_of(of_dataset[0])
        caption = f"{title}: accuracy"
        if n:
            caption += f" with 95% intervals ({n:,} test texts)"
        elif any(r["sd"] for r in of_dataset):
            caption += " ± 2 sd over seeds"
        if any(r["paper"] is not None for r in of_dataset):
            caption += "; hollow diamonds: the paper's."
        charts.append(Figure("accuracy", name, caption, _accuracy_chart(of_dataset)))
        points = [
            {"method": r["label"], "λ": p["lam"], "accuracy": round(p["cv_accuracy"], 4)}
            for r in of_dataset
            for p in r["lam_curve"]
            if len(r["lam_curve"]) > 1
        ]
        if points:
            caption = f"{title}: cross-validated accuracy against λ; dashed: roles swapped (i-)"
            charts.append(Figure("lam", name, caption, _line_chart(points, "λ", "accuracy")))
    for name, curves in by_kind.get("few-labels", {}).items():
        points = []
        for r in curves:
            for p in r["curve"]:
                low, high = p["accuracy"] - p["sd"], p["accuracy"] + p["sd"]
                point = {"method": r["label"], "labels": p["n_labels"], "low": low, "high": high}
                points.append({**point, "accuracy": round(p["accuracy"], 4)})
        caption = f"{titles.get(name, name)}: accuracy against the number of labels, ± sd of draws"
        spec = _line_chart(points, "labels", "accuracy")
        charts.append(Figure("few-labels", name, caption, spec))
    return charts


def _filtered(alt, values):
    return alt.Chart(alt.Data(values=values)).transform_filter(_NAME_FILTER)


def _specification(alt, chart, height) -> dict[str, Any]:
    parameter = alt.param(name="wanted", value="")
    return chart.properties(width="container", height=height).add_params(parameter).to_dict()


def _legend(alt, n_entries):
    columns = alt.ExprRef(f"width < 340 ? 2 : {2 if n_entries <= 4 else 3}")
    return alt.Legend(orient="bottom", columns=columns, title=None, labelLimit=150)


def _accuracy_chart(results) -> dict:
    import altair as alt

    values = []
    for r in sorted(results, key=lambda r: -r["accuracy"]):
        low, high = accuracy_interval(r)
        in_paper = r["row"] in ROWS and ROWS[r["row"]].in_paper
        group = "the paper's" if in_paper else "others"
        value = {"method": r["label"], "accuracy": r["accuracy"], "paper": r["paper"]}
        values.append({**value, "low": low, "high": high, "group": group})
    base = _filtered(alt, values)
    methods = list(dict.fromkeys(value["method"] for value in values))
    y = alt.Y("method:N", sort=methods, axis=alt.Axis(title=None, labelLimit=180))
    hint = [alt.Tooltip("method:N")] + [
        alt.Tooltip(f"{name}:Q", format=".4f") for name in ("accuracy", "low", "high", "paper")
    ]
    scale = alt.Scale(zero=False, nice=True)
    color = alt.Color("group:N", scale=alt.Scale(range=_COLORS), legend=_legend(alt, 2))
    intervals = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        y=y, x=alt.X("low:Q", scale=scale, title="test accuracy"), x2="high:Q", color=color
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=y, x=alt.X("accuracy:Q", scale=scale), color=color, tooltip=hint
    )
    paper = base.transform_filter("isValid(datum.paper)").mark_point(
        shape="diamond", filled=False, size=80, strokeWidth=1.6, color="#888"
    )
    paper = paper.encode(y=y, x=alt.X("paper:Q", scale=scale), tooltip=hint)
    return _specification(alt, intervals + points + paper, alt.Step(21))


def _line_chart(values, x_name, y_name) -> dict:
    """One line per method; a method and its variant with swapped roles (i-) share a color."""
    import altair as alt

    for value in values:
        value["family"] = value["method"].removeprefix("i-")
        value["roles"] = "as named" if value["family"] == value["method"] else "swapped"
    selection = alt.selection_point(fields=["family"], bind="legend")
    opacity = alt.condition(selection, alt.value(1), alt.value(0.12))
    families = len({value["family"] for value in values})
    color = alt.Color("family:N", scale=alt.Scale(range=_COLORS * 4), legend=_legend(alt, families))
    ticks = sorted({value[x_name] for value in values})
    axis = alt.Axis(values=ticks, labelOverlap=True) if len(ticks) < 12 else alt.Axis()
    x = alt.X(f"{x_name}:Q", scale=alt.Scale(type="log", nice=False), axis=axis)
    y = alt.Y(f"{y_name}:Q", scale=alt.Scale(zero=False))
    dashes = alt.Scale(domain=["as named", "swapped"], range=[[1, 0], [5, 4]])
    dash = alt.StrokeDash("roles:N", legend=None, scale=dashes)
    base = _filtered(alt, values).encode(x=x, color=color, opacity=opacity)
    hint = ["method:N", f"{x_name}:Q", f"{y_name}:Q"]
    chart = base.mark_line(strokeWidth=2).encode(y=y, detail="method:N", strokeDash=dash)
    chart += base.mark_point(filled=True, size=45).encode(y=y, tooltip=hint).add_params(selection)
    if "low" in values[0]:
        chart += base.mark_rule(strokeWidth=1).encode(y="low:Q", y2="high:Q")
    return _specification(alt, chart, 340)
