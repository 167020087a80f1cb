"""Charts of the demo: Vega-Lite specifications by Altair, and the summary of both pages."""

from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.rounding import rounded_up
from pacsent.words import WordVectors

BLUE = "#3b7dd8"
ORANGE = "#d9822b"
GREEN = "#2f9e6e"
GRAY = "#8a929c"
PURPLE = "#b0489e"
DARK_RED = "#7a1f1f"

DASHED = [4, 4]  # lengths of a dash and of a gap

# Place of the largest rate on a line of width 1; right of it there is room for its label.
_LARGEST_PLACE = 0.62


def _specification(chart: Any, height: int) -> dict[str, Any]:
    sized = chart.properties(width="container", height=height)
    return sized.to_dict()


def _chart(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Chart(alt.Data(values=rows))


def _legend(columns: int = 3) -> Any:
    """A legend below the chart; on a phone one entry per line."""
    import altair as alt

    n_columns = alt.ExprRef(f"width < 420 ? 1 : {columns}")
    return alt.Legend(orient="bottom", title=None, columns=n_columns, labelLimit=260)


def _color(field: str, values: list[str], colors: list[str], legend_columns: int = 3) -> Any:
    """A color for each value of a field, with a legend below the chart."""
    import altair as alt

    scale = alt.Scale(domain=values, range=colors)
    return alt.Color(field, scale=scale, legend=_legend(legend_columns))


def cosines(words: WordVectors, shown: tuple[str, ...], role: str) -> dict[str, Any]:
    """Cosines of input vectors with the vectors of a role, a square for each pair of words.

    Parameters
    ----------
    words : WordVectors
    shown : tuple of str
        The words, in the order of both axes.
    role : {"input", "output"}
        Role of the vectors on the horizontal axis.

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    inputs = np.stack([words.input(word) for word in shown])  # (n_words, n_dims)
    inputs = inputs.astype(float)
    others = inputs
    if role == "output":
        others = np.stack([words.output(word) for word in shown])

    unit_inputs = inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
    unit_others = others / np.linalg.norm(others, axis=1, keepdims=True)
    cosine = unit_inputs @ unit_others.T  # (n_words, n_words)

    rows = []
    for i, input_word in enumerate(shown):
        for j, other_word in enumerate(shown):
            value = round(float(cosine[i, j]), 3)
            rows.append({"input": input_word, "other": other_word, "cosine": value})

    order = list(shown)
    slanted = alt.Axis(labelAngle=-45)
    x = alt.X("other:N", sort=order, title=f"{role} vector", axis=slanted)
    y = alt.Y("input:N", sort=order, title="input vector")
    scale = alt.Scale(scheme="blues", domain=[-0.2, 1.0], clamp=True)
    legend = alt.Legend(orient="bottom")
    color = alt.Color("cosine:Q", scale=scale, legend=legend)
    tooltip = ["input:N", "other:N", "cosine:Q"]

    squares = _chart(rows).mark_rect()
    squares = squares.encode(x=x, y=y, color=color, tooltip=tooltip)
    return _specification(squares, 240)


def posterior_path(path: Any, lam: float) -> dict[str, Any]:
    """Means in a plane as lambda grows, and one standard deviation around prior and posterior.

    Parameters
    ----------
    path : books.Path2D
        What `books.posterior_path` returns.
    lam : float
        The lambda of PB-neg at which the posterior's deviation is drawn.

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    # Room for the labels below the lowest point.
    lowest_point = min(point["y"] for point in path.points)
    lowest = lowest_point - 3 * path.prior_sd
    x_axis = alt.Axis(tickCount=6)
    x = alt.X("x:Q", title="towards the mean of the input vectors", axis=x_axis)
    y_scale = alt.Scale(domainMin=lowest, nice=False)
    y = alt.Y("y:Q", title="across", scale=y_scale)

    # The ways of both methods, which start at the prior.
    names = {"PB-L2": "squared loss (PB-L2)", "PB-neg": "negative sampling (PB-neg)"}
    losses = list(names.values())
    rows = [{"loss": loss, "x": 0.0, "y": 0.0, "lam": 0.0} for loss in losses]
    for point in path.points:
        if point["lam"]:
            loss = names[point["method"]]
            rows.append({**point, "loss": loss, "λ": point["lam"]})
    color = _color("loss:N", losses, [ORANGE, BLUE], legend_columns=2)
    base = _chart(rows).encode(x=x, y=y, color=color)
    lines = base.mark_line(strokeWidth=2)
    lines = lines.encode(order="lam:Q")
    points = base.mark_point(filled=True, size=45, opacity=1)
    points = points.encode(tooltip=["loss:N", "λ:Q"], x=x, y=y)

    # One standard deviation around both.
    center = _find_point(path, "PB-neg", lam)
    of_prior = _circle("prior", 0.0, 0.0, path.prior_sd)
    of_posterior = _circle("posterior", center["x"], center["y"], path.posterior_sd)
    dash_scale = alt.Scale(domain=["prior", "posterior"], range=[[5, 4], [1, 0]])
    dash = alt.StrokeDash("around:N", legend=None, scale=dash_scale)
    outlines = _chart(of_prior + of_posterior).mark_line(strokeWidth=1.5, color=GRAY)
    outlines = outlines.encode(x=x, y=y, order="step:Q", detail="around:N", strokeDash=dash)

    # Names of both ends.
    end = _find_point(path, "data", None)
    prior_label = {"x": 0.0, "y": -path.prior_sd, "text": "prior: mean of ô"}
    data_label = {"x": end["x"], "y": 0.0, "text": "mean of î"}
    data_point = _chart([data_label]).mark_point(filled=True, size=90, color=GRAY, opacity=1)
    data_point = data_point.encode(x=x, y=y)
    text = _chart([prior_label, data_label]).mark_text(dy=14, fontSize=13, color=GRAY)
    text = text.encode(x=x, y=y, text="text:N")

    return _specification(outlines + lines + points + data_point + text, 300)


def _find_point(path: Any, method: str, lam: float | None) -> dict[str, Any]:
    """The mean of a method at a lambda."""
    for point in path.points:
        if point["method"] == method and point["lam"] == lam:
            return point
    raise ValueError(f"lam must be one of the path's. Got {lam} for {method} instead.")


def _circle(around: str, x: float, y: float, radius: float) -> list[dict[str, Any]]:
    rows = []
    angles = np.linspace(0.0, 2.0 * np.pi, 73)
    for step, angle in enumerate(angles):
        circle_x = float(x + radius * np.cos(angle))
        circle_y = float(y + radius * np.sin(angle))
        rows.append({"around": around, "x": circle_x, "y": circle_y, "step": step})
    return rows


def score_histograms(scores: dict[str, np.ndarray]) -> dict[str, Any]:
    """Distribution of the scores of each group of words; above 0 is called a word of the text.

    Parameters
    ----------
    scores : dict of str to array
        The scores of each group.

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    all_scores = np.concatenate(list(scores.values()))
    low, high = np.percentile(all_scores, [0.5, 99.5])
    edges = np.linspace(low, high, 41)
    middles = (edges[1:] + edges[:-1]) / 2  # (40,)

    rows = []
    for group, values in scores.items():
        counts, _ = np.histogram(values, edges)
        for score, count in zip(middles, counts):
            fraction = round(count / values.size, 5)
            rows.append({"words": group, "score": float(score), "fraction": fraction})

    groups = list(scores)
    x = alt.X("score:Q", title="score μ·î + b")
    y_axis = alt.Axis(format=".0%", tickCount=4)
    y = alt.Y("fraction:Q", stack=None, title="fraction of words", axis=y_axis)
    scale = alt.Scale(domain=groups, range=[BLUE, GREEN, GRAY])
    color = alt.Color("words:N", sort=groups, legend=_legend(), scale=scale)

    areas = _chart(rows).mark_area(opacity=0.45, interpolate="monotone", line=True)
    areas = areas.encode(x=x, y=y, color=color)
    threshold_rows = [{"score": 0.0}]
    threshold = _chart(threshold_rows).mark_rule(strokeDash=DASHED, color=GRAY)
    threshold = threshold.encode(x="score:Q")
    return _specification(areas + threshold, 260)


def stacked_bound(bound_rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Theorem 1 in its parts for each lambda, the bound, and the measured risk.

    Parameters
    ----------
    bound_rows : list of dict
        What `books.bound_against_lam` returns.

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    part_names = {
        "noise_term": "errors on negative samples (known)",
        "risk_term": "errors on the words of the sample",
        "kl_term": "KL / λ",
        "delta_term": "ln(1/δ) / λ",
    }
    mark_names = ["bound", "measured on held-out words"]

    parts = []
    points = []
    lams = []
    for row in bound_rows:
        lam = "P" if row["lam"] == 0 else f"{row['lam']:g}"
        lams.append(lam)
        for place, (key, name) in enumerate(part_names.items()):
            parts.append({"λ": lam, "part": name, "value": row[key], "place": place})
        mark_values = (min(row["bound"], 1.0), row["measured"])
        for name, value in zip(mark_names, mark_values):
            points.append({"λ": lam, "what": name, "value": value})

    title = "λ of the posterior (P: the prior)"
    x_axis = alt.Axis(labelAngle=0)
    x = alt.X("λ:O", sort=lams, title=title, axis=x_axis)
    y_axis = alt.Axis(format=".0%", tickCount=5)
    y = alt.Y("value:Q", title="risk", axis=y_axis)

    # One legend for parts and marks.
    names = [*part_names.values(), *mark_names]
    colors = [GRAY, BLUE, ORANGE, GREEN, PURPLE, DARK_RED]
    part_color = _color("part:N", names, colors, legend_columns=2)
    mark_color = _color("what:N", names, colors, legend_columns=2)
    shape_scale = alt.Scale(domain=mark_names, range=["diamond", "circle"])
    shape = alt.Shape("what:N", legend=None, scale=shape_scale)

    bars = _chart(parts).mark_bar(opacity=0.85)
    bars = bars.encode(x=x, y=y, color=part_color, order="place:Q")
    marks = _chart(points).mark_point(
        filled=True, size=70, opacity=1, stroke="white", strokeWidth=1
    )
    marks = marks.encode(x=x, y="value:Q", color=mark_color, shape=shape)
    return _specification(bars + marks, 300)


def variances(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Variance of the posterior against the number of words, on two logarithmic axes.

    Parameters
    ----------
    rows : list of dict
        What `books.variance_against_length` returns.

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    names = {
        "printed": "PB-L2 as printed",
        "corrected": "PB-L2 corrected",
        "PB-neg": "PB-neg corrected",
    }
    values = []
    for row in rows:
        for key, name in names.items():
            values.append({"words": row["n"], "variance": row[key], "form": name})

    x_scale = alt.Scale(type="log", base=2)
    x_axis = alt.Axis(values=[row["n"] for row in rows])
    x = alt.X("words:Q", title="words of the sentence", scale=x_scale, axis=x_axis)
    y_scale = alt.Scale(type="log")
    y = alt.Y("variance:Q", title="variance", scale=y_scale)
    color = _color("form:N", list(names.values()), [ORANGE, BLUE, GREEN])

    marker = alt.OverlayMarkDef(size=50, filled=True)
    lines = _chart(values).mark_line(point=marker, strokeWidth=2)
    lines = lines.encode(x=x, y=y, color=color)
    return _specification(lines, 260)


def accuracies(table: list[dict[str, Any]]) -> dict[str, Any]:
    """A dot for each row of the table: this run, and what the paper prints for 20news.

    Parameters
    ----------
    table : list of dict
        What `books.score_methods` returns.

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    names = {"accuracy": "this run, ten authors", "paper": "printed, 20news"}
    values = []
    for row in table:
        for key, name in names.items():
            accuracy = round(row[key], 4)
            values.append({"method": row["label"], "accuracy": accuracy, "what": name})

    order = [row["label"] for row in table]
    x_scale = alt.Scale(zero=False)
    x = alt.X("accuracy:Q", title="accuracy", scale=x_scale)
    y_axis = alt.Axis(labelLimit=160, grid=True)
    y = alt.Y("method:N", sort=order, title=None, axis=y_axis)
    color = _color("what:N", list(names.values()), [BLUE, ORANGE])
    tooltip = ["method:N", "what:N", "accuracy:Q"]

    dots = _chart(values).mark_point(filled=True, size=80, opacity=1)
    dots = dots.encode(x=x, y=y, color=color, tooltip=tooltip)
    return _specification(dots, 20 * len(table))


class Rate(NamedTuple):
    """An error rate that was guaranteed and measured, as a line of the summary of a page.

    Percentages are texts, guaranteed ones rounded up; places are percentages of the line's width.
    """

    name: str
    measured: str
    guaranteed: str
    measured_place: float
    guaranteed_place: float
    is_kept: bool


def guarantees(numbers: dict[str, Any], error: float) -> list[Rate]:
    """Error rates of the classifier, guaranteed and measured: the summary at the top of a page.

    Parameters
    ----------
    numbers : dict
        The numbers of the page: "test_error", "error_upper", "answered_error" and "missed".
    error : float
        The error rate that was asked of abstention and of prediction sets.

    Returns
    -------
    list of Rate
    """
    rates = {
        "All predictions": (numbers["test_error"], numbers["error_upper"]),
        "Answers, if it may abstain": (numbers["answered_error"], error),
        "Prediction sets without the right class": (numbers["missed"], error),
    }
    largest = max(max(pair) for pair in rates.values())
    full_width = largest / _LARGEST_PLACE

    lines = []
    for name, (measured, guaranteed) in rates.items():
        line = Rate(
            name=name,
            measured=f"{measured:.1%}",
            guaranteed=f"{rounded_up(100 * guaranteed, 1)}%",
            measured_place=round(100 * measured / full_width, 2),
            guaranteed_place=round(100 * guaranteed / full_width, 2),
            is_kept=measured <= guaranteed,
        )
        lines.append(line)
    return lines


def set_sizes(sizes: np.ndarray) -> dict[str, Any]:
    """Number of messages by the size of their prediction sets.

    Parameters
    ----------
    sizes : array of int, shape (n_messages,)

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    counts = []
    for size in np.unique(sizes):
        n_messages = int((sizes == size).sum())
        counts.append({"size": int(size), "messages": n_messages})

    size_axis = alt.Axis(labelAngle=0)
    x = alt.X("size:O", title="intents in the prediction set", axis=size_axis)
    count_axis = alt.Axis(tickCount=5)
    y = alt.Y("messages:Q", title="messages", axis=count_axis)

    bars = _chart(counts).mark_bar(color=BLUE)
    bars = bars.encode(x=x, y=y)
    return _specification(bars, 200)


def drift(evidence: list[dict[str, Any]]) -> dict[str, Any]:
    """Evidence of the drift monitor along each stream, and the value that raises an alarm.

    Parameters
    ----------
    evidence : list of dict
        "stream", "messages" read so far, and "log_capital", the evidence in powers of ten.

    Returns
    -------
    dict
        A Vega-Lite specification.
    """
    import altair as alt

    axis = alt.Axis(tickCount=5)
    x = alt.X("messages:Q", title="messages read", axis=axis)
    y = alt.Y("log_capital:Q", title="evidence of drift (powers of ten)")
    legend = alt.Legend(orient="bottom", title=None, columns=1, labelLimit=300)
    scale = alt.Scale(range=[ORANGE, BLUE])
    color = alt.Color("stream:N", legend=legend, scale=scale)
    lines = _chart(evidence).mark_line()
    lines = lines.encode(x=x, y=y, color=color)

    alarm_rows = [{"alarm": np.log10(20)}]
    threshold = _chart(alarm_rows).mark_rule(strokeDash=DASHED)
    threshold = threshold.encode(y="alarm:Q")
    return _specification(lines + threshold, 260)
