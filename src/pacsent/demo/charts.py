"""Charts of the demo's first page, as Vega-Lite specifications by Altair."""

from typing import Any

import numpy as np

from pacsent.bounds.rounding import rounded_up

BLUE, ORANGE, GREEN, GRAY = "#3b7dd8", "#d9822b", "#2f9e6e", "#8a929c"


def _specification(chart: Any, height: int) -> dict[str, Any]:
    return chart.properties(width="container", height=height).to_dict()


def _data(rows: list[dict]) -> Any:
    import altair as alt

    return alt.Data(values=rows)


def _legend(columns: int = 3) -> Any:
    """A legend below the chart; on a phone one entry per line."""
    import altair as alt

    n_columns = alt.ExprRef(f"width < 420 ? 1 : {columns}")
    return alt.Legend(orient="bottom", title=None, columns=n_columns, labelLimit=260)


def cosines(words: Any, shown: tuple[str, ...], role: str) -> dict[str, Any]:
    """Cosines of input vectors with the vectors of a role, a square for each pair of words."""
    import altair as alt

    inputs = np.stack([words.input(word) for word in shown]).astype(float)
    others = inputs if role == "input" else np.stack([words.output(word) for word in shown])
    unit_inputs = inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
    unit_others = others / np.linalg.norm(others, axis=1, keepdims=True)
    cosine = unit_inputs @ unit_others.T
    rows = [
        {"input": shown[i], "other": shown[j], "cosine": round(float(cosine[i, j]), 3)}
        for i in range(len(shown))
        for j in range(len(shown))
    ]
    scale = alt.Scale(scheme="blues", domain=[-0.2, 1.0], clamp=True)
    title = f"{role} vector"
    chart = (
        alt.Chart(_data(rows))
        .mark_rect()
        .encode(
            x=alt.X("other:N", sort=list(shown), title=title, axis=alt.Axis(labelAngle=-45)),
            y=alt.Y("input:N", sort=list(shown), title="input vector"),
            color=alt.Color("cosine:Q", scale=scale, legend=alt.Legend(orient="bottom")),
            tooltip=["input:N", "other:N", "cosine:Q"],
        )
    )
    return _specification(chart, 240)


def posterior_path(path: Any, lam: float) -> dict[str, Any]:
    """Means in a plane as lambda grows, and one standard deviation around prior and posterior."""
    import altair as alt

    x_axis = alt.Axis(tickCount=6)
    x = alt.X("x:Q", title="towards the mean of the input vectors", axis=x_axis)
    lowest = min(point["y"] for point in path.points) - 3 * path.prior_sd  # room for labels
    y = alt.Y("y:Q", title="across", scale=alt.Scale(domainMin=lowest, nice=False))
    names = {"PB-L2": "squared loss (PB-L2)", "PB-neg": "negative sampling (PB-neg)"}
    rows = [
        {**point, "loss": names[point["method"]], "λ": point["lam"]}
        for point in path.points
        if point["lam"]
    ]
    starts = [{"loss": name, "x": 0.0, "y": 0.0, "lam": 0.0} for name in names.values()]
    color = alt.Color(
        "loss:N",
        legend=_legend(2),
        scale=alt.Scale(domain=list(names.values()), range=[ORANGE, BLUE]),
    )
    base = alt.Chart(_data(starts + rows)).encode(x=x, y=y, color=color)
    lines = base.mark_line(strokeWidth=2).encode(order="lam:Q")
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        tooltip=["loss:N", "λ:Q"], x=x, y=y
    )

    [center] = [p for p in path.points if p["method"] == "PB-neg" and p["lam"] == lam]
    angles = np.linspace(0.0, 2.0 * np.pi, 73)
    ellipses = [
        {
            "around": around,
            "x": float(at[0] + sd * np.cos(angle)),
            "y": float(at[1] + sd * np.sin(angle)),
            "step": step,
        }
        for around, at, sd in (
            ("prior", (0.0, 0.0), path.prior_sd),
            ("posterior", (center["x"], center["y"]), path.posterior_sd),
        )
        for step, angle in enumerate(angles)
    ]
    outlines = (
        alt.Chart(_data(ellipses))
        .mark_line(strokeWidth=1.5, color=GRAY)
        .encode(
            x=x,
            y=y,
            order="step:Q",
            detail="around:N",
            strokeDash=alt.StrokeDash(
                "around:N",
                legend=None,
                scale=alt.Scale(domain=["prior", "posterior"], range=[[5, 4], [1, 0]]),
            ),
        )
    )
    [end] = [p for p in path.points if p["method"] == "data"]
    labels = [
        {"x": 0.0, "y": -path.prior_sd, "text": "prior: mean of ô"},
        {"x": end["x"], "y": 0.0, "text": "mean of î"},
    ]
    text = alt.Chart(_data(labels)).mark_text(dy=14, fontSize=13, color=GRAY)
    ends = alt.Chart(_data(labels[1:])).mark_point(filled=True, size=90, color=GRAY, opacity=1)
    layers = outlines + lines + points + ends.encode(x=x, y=y)
    return _specification(layers + text.encode(x=x, y=y, text="text:N"), 300)


def score_histograms(scores: dict[str, np.ndarray]) -> dict[str, Any]:
    """The distribution of scores of each group of words; above 0 is called a word of the text."""
    import altair as alt

    low, high = np.percentile(np.concatenate(list(scores.values())), [0.5, 99.5])
    edges = np.linspace(low, high, 41)
    middles = (edges[1:] + edges[:-1]) / 2
    rows = []
    for group, values in scores.items():
        counts, _ = np.histogram(values, edges)
        for score, count in zip(middles, counts):
            fraction = round(count / values.size, 5)
            rows.append({"words": group, "score": float(score), "fraction": fraction})
    color = alt.Color(
        "words:N",
        sort=list(scores),
        legend=_legend(),
        scale=alt.Scale(domain=list(scores), range=[BLUE, GREEN, GRAY]),
    )
    areas = (
        alt.Chart(_data(rows))
        .mark_area(opacity=0.45, interpolate="monotone", line=True)
        .encode(
            x=alt.X("score:Q", title="score μ·î + b"),
            y=alt.Y(
                "fraction:Q",
                stack=None,
                title="fraction of words",
                axis=alt.Axis(format=".0%", tickCount=4),
            ),
            color=color,
        )
    )
    rule = alt.Chart(_data([{"score": 0.0}])).mark_rule(strokeDash=[4, 4], color=GRAY)
    return _specification(areas + rule.encode(x="score:Q"), 260)


def stacked_bound(bound_rows: list[dict]) -> dict[str, Any]:
    """Theorem 1 in its parts for each lambda, the bound, and the measured risk."""
    import altair as alt

    names = {
        "noise_term": "errors on negative samples (known)",
        "risk_term": "errors on the words of the sample",
        "kl_term": "KL / λ",
        "delta_term": "ln(1/δ) / λ",
    }
    parts, points = [], []
    order = []
    for row in bound_rows:
        shown = "P" if row["lam"] == 0 else f"{row['lam']:g}"
        order.append(shown)
        for place, (key, name) in enumerate(names.items()):
            parts.append({"λ": shown, "part": name, "value": row[key], "place": place})
        points.append({"λ": shown, "what": "bound", "value": min(row["bound"], 1.0)})
        points.append({"λ": shown, "what": "measured on held-out words", "value": row["measured"]})
    x = alt.X(
        "λ:O", sort=order, title="λ of the posterior (P: the prior)", axis=alt.Axis(labelAngle=0)
    )
    domain = [*names.values(), "bound", "measured on held-out words"]
    scale = alt.Scale(domain=domain, range=[GRAY, BLUE, ORANGE, GREEN, "#b0489e", "#7a1f1f"])
    y_axis = alt.Axis(format=".0%", tickCount=5)
    bars = (
        alt.Chart(_data(parts))
        .mark_bar(opacity=0.85)
        .encode(
            x=x,
            y=alt.Y("value:Q", title="risk", axis=y_axis),
            color=alt.Color("part:N", scale=scale, legend=_legend(2)),
            order="place:Q",
        )
    )
    marks = (
        alt.Chart(_data(points))
        .mark_point(filled=True, size=70, opacity=1, stroke="white", strokeWidth=1)
        .encode(
            x=x,
            y="value:Q",
            color=alt.Color("what:N", scale=scale, legend=_legend(2)),
            shape=alt.Shape(
                "what:N",
                legend=None,
                scale=alt.Scale(
                    domain=["bound", "measured on held-out words"], range=["diamond", "circle"]
                ),
            ),
        )
    )
    return _specification(bars + marks, 300)


def variances(rows: list[dict]) -> dict[str, Any]:
    """Variance of the posterior against the number of words, on two logarithmic axes."""
    import altair as alt

    names = {
        "printed": "PB-L2 as printed",
        "corrected": "PB-L2 corrected",
        "PB-neg": "PB-neg corrected",
    }
    values = [
        {"words": row["n"], "variance": row[key], "form": name}
        for row in rows
        for key, name in names.items()
    ]
    scale = alt.Scale(domain=list(names.values()), range=[ORANGE, BLUE, GREEN])
    chart = (
        alt.Chart(_data(values))
        .mark_line(point=alt.OverlayMarkDef(size=50, filled=True), strokeWidth=2)
        .encode(
            x=alt.X(
                "words:Q",
                title="words of the sentence",
                scale=alt.Scale(type="log", base=2),
                axis=alt.Axis(values=[row["n"] for row in rows]),
            ),
            y=alt.Y("variance:Q", title="variance", scale=alt.Scale(type="log")),
            color=alt.Color("form:N", scale=scale, legend=_legend()),
        )
    )
    return _specification(chart, 260)


def accuracies(table: list[dict]) -> dict[str, Any]:
    """A dot for each row of the table: this run, and what the paper prints for 20news."""
    import altair as alt

    names = ("this run, ten authors", "printed, 20news")
    values = [
        {"method": row["label"], "accuracy": round(row[key], 4), "what": name}
        for row in table
        for key, name in zip(("accuracy", "paper"), names)
    ]
    order = [row["label"] for row in table]
    chart = (
        alt.Chart(_data(values))
        .mark_point(filled=True, size=80, opacity=1)
        .encode(
            x=alt.X("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False)),
            y=alt.Y("method:N", sort=order, title=None, axis=alt.Axis(labelLimit=160, grid=True)),
            color=alt.Color(
                "what:N",
                legend=_legend(),
                scale=alt.Scale(domain=list(names), range=[BLUE, ORANGE]),
            ),
            tooltip=["method:N", "what:N", "accuracy:Q"],
        )
    )
    return _specification(chart, 20 * len(table))


def guarantees(numbers: dict[str, Any], error: float) -> dict[str, Any]:
    """What was guaranteed (marks) and what was measured (bars) for the classifier."""
    import altair as alt

    rows = [
        {
            "what": "all predictions",
            "measured": numbers["test_error"],
            "guaranteed": numbers["error_upper"],
        },
        {"what": "answers", "measured": numbers["answered_error"], "guaranteed": error},
        {"what": "prediction sets", "measured": numbers["missed"], "guaranteed": error},
    ]
    for row in rows:
        row["label"] = f"{rounded_up(100 * row['guaranteed'], 1)}%"
    y = alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=160))
    axis = alt.Axis(tickCount=5, format=".0%")
    base = alt.Chart(_data(rows))
    bars = base.mark_bar(height=20, color=BLUE).encode(
        y=y, x=alt.X("measured:Q", title="error rate", axis=axis)
    )
    ticks = base.mark_tick(thickness=3, size=36, color=ORANGE).encode(y=y, x="guaranteed:Q")
    said = base.mark_text(align="left", dx=7, color=ORANGE, fontSize=13).encode(
        y=y, x="guaranteed:Q", text="label:N"
    )
    return _specification(bars + ticks + said, 150)
