"""How often certificates fail where the truth is known: every kind, every setting, and streams.

    python benchmarks/simulate.py --save                    # 1,000 replicates each
    python benchmarks/simulate.py --replicates 100          # quicker

Saves docs/figures/drift.png with the result: claimed bound against true risk where words come in
bursts and topics drift, for A as if words were independent, and for the continuation certificate.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent.bounds.binomial import two_sided_limits
from pacsent.bounds.means import differing_means
from pacsent.paper import simulate, simulation
from pacsent.threads import n_threads

CASES = [
    *((kind, setting) for kind in simulation.KINDS for setting in ("topics", "memorising")),
    ("A", "drift"),
    ("continuation", "drift"),
]
N_STREAM = 200  # documents of a watched stream


def coverage_row(kind, setting, n_replicates):
    found = simulate(kind, setting, n_replicates, random_state=0)
    row = {
        "kind": kind,
        "setting": setting,
        "replicates": found.n_replicates,
        "below the truth": found.n_violations,
        "95 % from": found.low,
        "to": found.high,
        "mean bound": found.mean_bound,
        "mean true risk": found.mean_risk,
        "the paper's bound below the truth": found.paper_violations or None,
    }
    print(row, flush=True)
    return row, found.replicates


def coverage_rows(n_replicates, n_jobs):
    """All cases, each in a process of its own; every replicate has its own seed."""
    rows, pairs = [], {}
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
        work = [pool.submit(coverage_row, *case, n_replicates) for case in CASES]
        for (kind, setting), future in zip(CASES, work):
            row, drawn = future.result()
            rows.append(row)
            if setting == "drift":
                pairs[kind] = drawn
    return rows, pairs


def stream_row(n_streams):
    """Streams of drifting documents, with a bound after every document."""
    language = simulation.Language(simulation.SETTINGS["drift"])
    population = simulation._Drifting(language, 0, "continuation")
    rng = np.random.default_rng(1)
    trial = simulation.Trial(0.05, {})
    _, found = trial(rng, language.words, population.encoded, "continuation")
    rule, truth = found.rule, population.true_risk(found.rule)
    broken, ends = 0, []
    for _ in range(n_streams):
        stream = population.encoded.take(rng.integers(0, 1000, N_STREAM))
        losses = rule.losses(stream, rng)
        path = [differing_means(losses[:t], 0.05) for t in range(1, N_STREAM + 1)]
        broken += min(path) < truth
        ends.append(path[-1])
    low, high = two_sided_limits(broken, n_streams, 0.05)
    return {
        "kind": "continuation, watched",
        "setting": "drift",
        "replicates": n_streams,
        "below the truth": broken,
        "95 % from": low,
        "to": high,
        "mean bound": float(np.mean(ends)),
        "mean true risk": truth,
        "the paper's bound below the truth": None,
    }


def figure(pairs, path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = Figure(figsize=(6.4, 4.6), dpi=110)
    FigureCanvasAgg(shown)
    axis = shown.add_subplot()
    names = {"A": "A, as if words were independent", "continuation": "continuation certificate"}
    for (kind, drawn), colour in zip(pairs.items(), ("#d95f02", "#1b9e77")):
        axis.scatter(drawn[:, 1], drawn[:, 0], s=6, color=colour, label=names[kind], alpha=0.6)
    ends = np.concatenate([drawn.ravel() for drawn in pairs.values()])
    low, high = ends.min() - 0.01, ends.max() + 0.01
    axis.plot([low, high], [low, high], color="black", linewidth=0.8)
    axis.set(xlim=(low, high), ylim=(low, high), xlabel="true risk on the words that follow")
    axis.set(ylabel="certified bound", title="Points below the line violate the bound")
    axis.legend(frameon=False, loc="upper left", markerscale=2)
    shown.tight_layout()
    shown.savefig(path, metadata={"Software": None})


def main():
    parser = parser_for(__doc__, name="coverage")  # --data is not used: the language is made here
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--n-jobs", type=int, help="Processes.  [default: all cores]")
    given = parser.parse_args()
    rows, pairs = coverage_rows(given.replicates, n_threads(given.n_jobs))
    rows.append(stream_row(given.replicates))
    if given.save:
        figure(pairs, Path(__file__).parents[1] / "docs" / "figures" / "drift.png")
    failed = [row for row in rows if (row["kind"], row["setting"]) != ("A", "drift")]
    drift = [row for row in rows if (row["kind"], row["setting"]) == ("A", "drift")]
    summary = {
        "ratio": None,
        "most below the truth": max(row["below the truth"] for row in failed),
        "allowed": 0.05 * given.replicates,
        "A in drift below the truth": drift[0]["below the truth"],
    }
    title = "Certificates below the truth, delta = 0.05"
    finish("simulate", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
