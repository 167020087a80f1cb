"""What the results say, in sentences made from them."""

from collections.abc import Sequence
from statistics import median

from pacsent.maths.rounding import percent
from pacsent.paper.figures import interval, realised


def findings(results: Sequence[dict], titles: dict[str, str]) -> list[str]:
    """A few sentences, the most important first; none where there is nothing to say.

    >>> shared = {"kind": "classification", "dataset": "subj", "sd": 0.0, "paper": None}
    >>> scored = [{**shared, "label": "PB-L2", "accuracy": 0.9},
    ...           {**shared, "label": "Average", "accuracy": 0.6}]
    >>> findings(scored, {"subj": "SUBJ"})
    ['Best accuracy on SUBJ: PB-L2 0.900, ahead of every other beyond what chance explains.']
    """
    said = [_leaders(results, titles), _few_labels(results, titles), _certificates(results),
            _paper(results)]  # fmt: skip
    return [sentence for sentence in said if sentence]


def tied(result: dict, best: dict) -> bool:
    """Whether chance alone explains that `best` is better."""
    return interval(result)[1] >= interval(best)[0]


def _leaders(results, titles) -> str:
    by_dataset: dict[str, list[dict]] = {}
    for r in results:
        if r["kind"] == "classification":
            by_dataset.setdefault(r["dataset"], []).append(r)
    parts = []
    for name in sorted(by_dataset, key=lambda n: list(titles).index(n) if n in titles else 99):
        found = by_dataset[name]
        best = max(found, key=lambda r: r["accuracy"])
        others = [r["label"] for r in found if r is not best and tied(r, best)]
        part = f"{titles.get(name, name)}: {best['label']} {best['accuracy']:.3f}"
        if not others:
            part += ", ahead of every other beyond what chance explains"
        elif len(others) == 1:
            part += f", which chance does not tell from {others[0]}"
        else:
            part += f", which chance does not tell from {len(others)} others"
        parts.append(part)
    return f"Best accuracy on {'; on '.join(parts)}." if parts else ""


def _few_labels(results, titles) -> str:
    found = [r for r in results if r["kind"] == "few-labels"]
    baselines = {r["dataset"]: r for r in found if r["row"] == "tf-idf"}
    parts = []
    for name, baseline in baselines.items():
        n = min(point["n_labels"] for point in baseline["curve"])
        at = {r["label"]: point for r in found if r["dataset"] == name
              for point in r["curve"] if point["n_labels"] == n}  # fmt: skip
        label, best = max(at.items(), key=lambda item: item[1]["accuracy"])
        lead = best["accuracy"] - at[baseline["label"]]["accuracy"]
        if label != baseline["label"]:
            parts.append(f"on {titles.get(name, name)} {label} is {100 * lead:.1f} points ahead "
                         f"of {baseline['label']} with {n:,} labels")  # fmt: skip
        else:
            parts.append(f"on {titles.get(name, name)} nothing beats {label} with {n:,} labels")
    return f"With few labels, {'; '.join(parts)}." if parts else ""


def _certificates(results) -> str:
    found = [r for r in results if r["kind"] == "certificate"]
    if not found:
        return ""
    best = min(found, key=lambda r: r["risk_bound"])
    true = realised(best)
    risks = [(realised(r), r["risk_bound"]) for r in found]
    kept = [risk <= bound for risk, bound in risks if risk is not None]
    sentence = (
        f"The certificate guarantees, with {100 * (1 - best['delta']):g} % confidence, that "
        f"{best['label']}'s vectors tell words of a new document from noise with at most "
        f"{percent(best['risk_bound'])} mistakes (guessing: 50 %)"
    )
    if true is not None:
        sentence += f"; in truth it was {100 * true:.1f} %"
    if len(kept) > 1:
        sentence += f", and {sum(kept)} of {len(kept)} such guarantees held"
    return sentence + "."


def _paper(results) -> str:
    gaps = [r["accuracy"] - r["paper"] for r in results
            if r["kind"] == "classification" and r["paper"] is not None]  # fmt: skip
    if not gaps:
        return ""
    near = sum(abs(gap) <= 0.02 for gap in gaps)
    return (
        f"Of {len(gaps)} numbers that the paper prints, {near} come out within 0.02 and "
        f"{sum(gap >= 0 for gap in gaps)} at least as high (median difference {median(gaps):+.3f})."
    )
