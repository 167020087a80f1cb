"""How often certificates fail where the truth is known: every kind, every setting, and streams.

    python benchmarks/simulate.py --save                    # 1,000 replicates each
    python benchmarks/simulate.py --replicates 100          # quicker

    python benchmarks/simulate.py drift --replicates 200 --save

`drift` saves the points of docs/figures/drift.svg: certified bound and true risk of each replicate
where words come in bursts and topics drift, for A as if words were independent, and for the
continuation certificate.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

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
    return row


def coverage_rows(n_replicates, n_jobs):
    """All cases, each in a process of its own; every replicate has its own seed."""
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
        work = [pool.submit(coverage_row, *case, n_replicates) for case in CASES]
        return [future.result() for future in work]


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


def drift_rows(n_replicates):
    """Each replicate's bound and true risk in the setting "drift", the points of a figure."""
    rows = []
    for kind in ("A", "continuation"):
        found = simulate(kind, "drift", n_replicates, random_state=0)
        for bound, risk in found.replicates:
            rows.append({"kind": kind, "bound": round(bound, 4), "true risk": round(risk, 4)})
    return rows


def main():
    parser = parser_for(__doc__, name="coverage")  # --data is not used: the language is made here
    parser.add_argument("part", choices=["coverage", "drift"], nargs="?", default="coverage")
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--n-jobs", type=int, help="Processes.  [default: all cores]")
    given = parser.parse_args()
    if given.part == "drift":
        rows = drift_rows(given.replicates)
        summary = {}
        for kind in ("A", "continuation"):
            of_kind = [row for row in rows if row["kind"] == kind]
            summary[kind] = float(np.mean([row["bound"] < row["true risk"] for row in of_kind]))
        title = "Bounds and true risks, bursts and drifting topics"
        finish("simulate", rows, summary=summary, title=title, save=given.save, name="drift")
        return
    rows = coverage_rows(given.replicates, n_threads(given.n_jobs))
    rows.append(stream_row(given.replicates))
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
