"""Commands about promises: bound, certify, simulate."""

import warnings

import click

import pacsent
from pacsent.cli.common import cli, device_option, echo_warnings, n_jobs_option, quiet_option
from pacsent.cli.sentences import check_parameters

# ------------------------------------------------------------------------------------------------
# promises: bound, certify, simulate
# ------------------------------------------------------------------------------------------------


def _probability(context, parameter, value):
    if not 0 < value < 1:
        raise click.BadParameter(f"{value:g} is not strictly between 0 and 1.")
    return value


@cli.command()
@click.option("--risk", type=click.FloatRange(0, 1), required=True, help="Empirical risk.")
@click.option("--kl", type=click.FloatRange(min=0), required=True, help="KL(Q||P) in nats.")
@click.option("--n", type=click.IntRange(min=1), required=True, help="Independent examples.")
@click.option(
    "--delta", type=float, default=0.05, show_default=True, callback=_probability,
    help="Chance that the bound fails.",
)  # fmt: skip
@click.option(
    "--lam", type=click.FloatRange(min=0, min_open=True),
    help="Catoni's lambda, fixed before the sample is seen.  [default: n]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
def bound(risk, kl, n, delta, lam, as_json):
    """All PAC-Bayes bounds on one set of numbers, as a table."""
    import json

    from pacsent.maths import bounds

    rows = bounds.compare(risk, kl, n, delta, lam=lam)
    if as_json:
        given = {"empirical_risk": risk, "kl": kl, "n": n, "delta": delta}
        found = [{"bound": row.name, "value": row.value, "note": row.note} for row in rows]
        click.echo(json.dumps({**given, "bounds": found}))
        return
    click.echo(f"risk {risk:g} on n = {n:,}, KL {kl:g} nats, delta {delta:g}")
    width = max(len(row.name) for row in rows)
    for row in rows:
        click.echo(f"{row.name:<{width}}  {row.value:.6f}  {row.note}")


@cli.command()
@click.argument("model")
@click.argument("text")
@click.option(
    "--kind", type=click.Choice(["A", "A'", "B", "C"]), default="A", show_default=True,
    help="A: further words of these documents. A': words of these texts, no assumption. "
    "B: new documents. C: squared loss.",
)  # fmt: skip
@click.option("--method", default="PB-L2", show_default=True,
              help="The method, where MODEL holds word vectors only.")  # fmt: skip
@click.option(
    "--delta", type=float, default=0.05, show_default=True, callback=_probability,
    help="Chance that the bound fails.",
)  # fmt: skip
@click.option("--posterior", default="auto", show_default=True,
              type=click.Choice(["auto", "prior", "vectorizer", "bound"]),
              help="Which posterior is certified; all are free.")  # fmt: skip
@click.option("--bias", type=float, help="Added to every score.  [default: ln of the negatives]")
@click.option("--split", type=float, help="Share of the words that builds the prior.")
@click.option("--holdout", type=float, help="Share of the words kept back, to check the bound.")
@click.option("--no-calibrate", is_flag=True, help="Leave the prior's mean as it is.")
@click.option("--random-state", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the split. The best of J seeds takes delta / J.")  # fmt: skip
@n_jobs_option
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@quiet_option
def certify(model, text, method, as_json, no_calibrate, quiet, device, **options):
    """Certify how well MODEL tells unseen words of TEXT (a document a line) from noise.

    The word vectors must not have been trained on TEXT. Of MODEL the method and its settings are
    taken; what it learned from text is learned again, on the prior's part of TEXT. Exit status 0
    also for a bound that is no better than guessing; a warning on stderr says so.
    """

    from pacsent.text.reading import read_lines

    loaded = pacsent.load(model)
    vectorizer = loaded if hasattr(loaded, "transform") else pacsent.make(method, loaded)
    if device is not None:
        check_parameters(vectorizer, {"device": device})
        vectorizer.set_params(device=device)
    if not quiet and vectorizer is loaded:
        click.echo(
            f"certify: {vectorizer.method_name} is fitted again on the prior's part of {text}; "
            f"what {model} learned before is not used.",
            err=True,
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        certificate = pacsent.certify(
            vectorizer, list(read_lines(text)), calibrate=not no_calibrate, verbose=not quiet,
            **options,
        )  # fmt: skip
    echo_warnings(caught)
    click.echo(certificate.to_json() if as_json else str(certificate))


@cli.command()
@click.option("--kind", type=click.Choice(["A", "A'", "B", "C", "all"]), default="all",
              show_default=True, help="Which certificate.")  # fmt: skip
@click.option("--setting", type=click.Choice(["topics", "memorising", "all"]), default="all",
              show_default=True, help="Vectors that know topics, or that memorise.")  # fmt: skip
@click.option(
    "--replicates",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Independent corpora.",
)
@click.option(
    "--delta", type=float, default=0.05, show_default=True, callback=_probability,
    help="Chance that a bound may fail.",
)  # fmt: skip
@click.option(
    "--random-state", type=click.IntRange(min=0), default=0, show_default=True, help="Seed."
)
@click.option("--figure", metavar="FILE.png", help="Also draw true risk against claimed bound.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@quiet_option
def simulate(kind, setting, replicates, delta, random_state, figure, as_json, quiet):
    """Count how often certificates fail where the truth is known, beside the paper's own bound.

    Documents are drawn from the paper's generative model. Exit status 1 if a certificate failed
    more often than delta allows.
    """
    import json

    from pacsent.certificates import simulation

    kinds = ["A", "A'", "B", "C"] if kind == "all" else [kind]
    settings = list(simulation.SETTINGS) if setting == "all" else [setting]
    found, drawn = [], {}
    if not as_json:
        click.echo("kind  setting     replicates  violations  95 % interval     bound    true    "
                   "paper's violations  bound    true")  # fmt: skip
    for one in kinds:
        for name in settings:
            coverage, pairs = simulation.simulate(
                one, name, replicates, delta=delta, random_state=random_state,
                verbose=not quiet, return_replicates=True,
            )  # fmt: skip
            found.append(coverage)
            if one != "C":
                drawn[f"{one}, {name}"] = pairs
            if not as_json:
                c = coverage
                click.echo(
                    f"{c.kind:<4}  {c.setting:<10}  {c.n_replicates:>10,}  {c.n_violations:>10,}  "
                    f"[{c.low:.4f}, {c.high:.4f}]  {c.mean_bound:<7.4g}  {c.mean_risk:<7.4g} "
                    f"{c.paper_violations:>18,}  {c.paper_mean_bound:.4f}  {c.paper_mean_risk:.4f}"
                )
    if figure:
        simulation.figure(drawn, figure)
    if as_json:
        click.echo(json.dumps({"delta": delta, "coverage": [c.to_dict() for c in found]}))
    return 0 if all(c.keeps_promise for c in found) else 1
