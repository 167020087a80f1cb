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
    center = p + z * z / (2 * n)
    width = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    scale = 1 + z * z / n
    return (center - width) / scale, (center + width) / scale


@cache
def chart_runtime() -> str:
    """JavaScript that draws the charts, for a page that works offline."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")


def altair_found() -> bool:
    """Return True if charts can be drawn."""
    return all(importlib.util.find_spec(name) for name in ("altair", "vl_convert"))


def require_altair() -> None:
    """Raise ImportError early, before hours of work, if the charts cannot be drawn."""
    if not altair_found():
        raise ImportError(f"Charts need Altair, which is not installed. {install_hint('report')}")


def figures(results: Sequence[dict], titles: dict[str, str]) -> list[Figure]:
    """All charts for which there are results; empty without Altair."""
    if not altair_found():
        return []
    scored = _by_dataset(results, "classification")
    curves = _by_dataset(results, "few-labels")
    names = [name for name in titles if name in scored]
    names += sorted(set(scored) - set(titles))

    charts = []
    for name in names:
        title = titles.get(name, name)
        charts.append(_accuracy_figure(name, title, scored[name]))
        points = _lam_points(scored[name])
        if points:
            caption = f"{title}: cross-validated accuracy against λ; dashed: roles swapped (i-)"
            charts.append(Figure("lam", name, caption, _line_chart(points, "λ", "accuracy")))
    for name, of_dataset in curves.items():
        title = titles.get(name, name)
        caption = f"{title}: accuracy against the number of labels, ± sd of draws"
        spec = _line_chart(_label_points(of_dataset), "labels", "accuracy")
        charts.append(Figure("few-labels", name, caption, spec))
    return charts


def _by_dataset(results: Sequence[dict], kind: str) -> dict[str, list[dict]]:
    """Results of one kind, grouped by dataset in the order in which they occur."""
    groups: dict[str, list[dict]] = {}
    for result in results:
        if result["kind"] == kind:
            groups.setdefault(result["dataset"], []).append(result)
    return groups


def _accuracy_figure(name: str, title: str, results: list[dict]) -> Figure:
    """Accuracies of all methods on one dataset."""
    caption = f"{title}: accuracy"
    n_test = n_test_of(results[0])
    if n_test:
        caption += f" with 95% intervals ({n_test:,} test texts)"
    elif any(result["sd"] for result in results):
        caption += " ± 2 sd over seeds"
    if any(result["paper"] is not None for result in results):
        caption += "; hollow diamonds: the paper's."
    return Figure("accuracy", name, caption, _accuracy_chart(results))


def _lam_points(results: list[dict]) -> list[dict[str, Any]]:
    """Cross-validated accuracies of the methods for which several values of lambda were tried."""
    points = []
    for result in results:
        if len(result["lam_curve"]) <= 1:
            continue
        for point in result["lam_curve"]:
            accuracy = round(point["cv_accuracy"], 4)
            points.append({"method": result["label"], "λ": point["lam"], "accuracy": accuracy})
    return points


def _label_points(results: list[dict]) -> list[dict[str, Any]]:
    """Accuracies by number of labels, with one standard deviation to both sides."""
    points = []
    for result in results:
        for point in result["curve"]:
            chart_point = {
                "method": result["label"],
                "labels": point["n_labels"],
                "low": point["accuracy"] - point["sd"],
                "high": point["accuracy"] + point["sd"],
                "accuracy": round(point["accuracy"], 4),
            }
            points.append(chart_point)
    return points


def _filtered_chart(alt: Any, values: list[dict[str, Any]]) -> Any:
    """A chart of the values whose method passes the filter box of the page."""
    data = alt.Data(values=values)
    return alt.Chart(data).transform_filter(_NAME_FILTER)


def _specification(alt: Any, chart: Any, height: Any) -> dict[str, Any]:
    parameter = alt.param(name="wanted", value="")
    chart = chart.properties(width="container", height=height)
    return chart.add_params(parameter).to_dict()


def _legend(alt: Any, n_entries: int) -> Any:
    n_wide_columns = 2 if n_entries <= 4 else 3
    columns = alt.ExprRef(f"width < 340 ? 2 : {n_wide_columns}")
    return alt.Legend(orient="bottom", columns=columns, title=None, labelLimit=150)


def _accuracy_values(results: list[dict]) -> list[dict[str, Any]]:
    """Accuracy and interval of every method, the best first."""
    values = []
    for result in sorted(results, key=lambda result: -result["accuracy"]):
        low, high = accuracy_interval(result)
        in_paper = result["row"] in ROWS and ROWS[result["row"]].in_paper
        value = {
            "method": result["label"],
            "accuracy": result["accuracy"],
            "paper": result["paper"],
            "low": low,
            "high": high,
            "group": "the paper's" if in_paper else "others",
        }
        values.append(value)
    return values


def _accuracy_chart(results: list[dict]) -> dict[str, Any]:
    """Points with intervals, and the paper's accuracies as hollow diamonds."""
    import altair as alt

    values = _accuracy_values(results)
    base = _filtered_chart(alt, values)

    methods = list(dict.fromkeys(value["method"] for value in values))
    method_axis = alt.Axis(title=None, labelLimit=180)
    y = alt.Y("method:N", sort=methods, axis=method_axis)
    scale = alt.Scale(zero=False, nice=True)

    # The groups are "the paper's" and "others".
    colors = alt.Scale(range=_COLORS)
    legend = _legend(alt, n_entries=2)
    color = alt.Color("group:N", scale=colors, legend=legend)

    hint = [alt.Tooltip("method:N")]
    for name in ("accuracy", "low", "high", "paper"):
        hint.append(alt.Tooltip(f"{name}:Q", format=".4f"))

    low = alt.X("low:Q", scale=scale, title="test accuracy")
    intervals = base.mark_rule(strokeWidth=2, opacity=0.6)
    intervals = intervals.encode(y=y, x=low, x2="high:Q", color=color)

    accuracy = alt.X("accuracy:Q", scale=scale)
    points = base.mark_point(filled=True, size=70, opacity=1)
    points = points.encode(y=y, x=accuracy, color=color, tooltip=hint)

    paper_accuracy = alt.X("paper:Q", scale=scale)
    in_paper = base.transform_filter("isValid(datum.paper)")
    paper = in_paper.mark_point(
        shape="diamond", filled=False, size=80, strokeWidth=1.6, color="#888"
    )
    paper = paper.encode(y=y, x=paper_accuracy, tooltip=hint)
    return _specification(alt, intervals + points + paper, alt.Step(21))


def _line_chart(values: list[dict[str, Any]], x_name: str, y_name: str) -> dict[str, Any]:
    """One line per method; a method and its variant with swapped roles (i-) share a color."""
    import altair as alt

    for value in values:
        value["family"] = value["method"].removeprefix("i-")
        value["roles"] = "as named" if value["family"] == value["method"] else "swapped"
    n_families = len({value["family"] for value in values})

    # A click on the legend dims the other families.
    selection = alt.selection_point(fields=["family"], bind="legend")
    opacity = alt.condition(selection, alt.value(1), alt.value(0.12))
    colors = alt.Scale(range=_COLORS * 4)
    color = alt.Color("family:N", scale=colors, legend=_legend(alt, n_families))
    dashes = alt.Scale(domain=["as named", "swapped"], range=[[1, 0], [5, 4]])
    dash = alt.StrokeDash("roles:N", legend=None, scale=dashes)

    ticks = sorted({value[x_name] for value in values})
    axis = alt.Axis()
    if len(ticks) < 12:
        axis = alt.Axis(values=ticks, labelOverlap=True)
    x_scale = alt.Scale(type="log", nice=False)
    x = alt.X(f"{x_name}:Q", scale=x_scale, axis=axis)
    y_scale = alt.Scale(zero=False)
    y = alt.Y(f"{y_name}:Q", scale=y_scale)

    base = _filtered_chart(alt, values).encode(x=x, color=color, opacity=opacity)
    lines = base.mark_line(strokeWidth=2).encode(y=y, detail="method:N", strokeDash=dash)
    hint = ["method:N", f"{x_name}:Q", f"{y_name}:Q"]
    points = base.mark_point(filled=True, size=45).encode(y=y, tooltip=hint)
    chart = lines + points.add_params(selection)
    if "low" in values[0]:
        chart += base.mark_rule(strokeWidth=1).encode(y="low:Q", y2="high:Q")
    return _specification(alt, chart, 340)
