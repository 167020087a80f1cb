"""Commands about certificates: bound, certify, certify-predictions, verify, simulate."""

import warnings
from functools import partial
from pathlib import Path

import click

from pacsent.cli.command_line import (
    NON_NEGATIVE,
    PATH,
    POSITIVE,
    cli,
    delta_option,
    echo_warnings,
    encoder_option,
    json_option,
    method_option,
    n_jobs_option,
    open_model,
    open_vectorizer,
    option,
    output_options,
    overlap_option,
    quiet_option,
)
from pacsent.cli.printing import echo_json, noted, show, table, terminal_width
from pacsent.cli.text_inputs import (
    TextsPath,
    label_options,
    labels_for,
    read_labelled,
    read_texts,
    say,
    separator_option,
    text_options,
)


@cli.command()
@option("--risk", "Empirical risk.", click.FloatRange(0, 1), required=True)
@option("--kl", "KL(Q||P) in nats.", click.FloatRange(min=0), required=True)
@option("--n", "Independent examples.", POSITIVE, required=True)
@delta_option
@option(
    "--lam",
    "Catoni's lambda, fixed before the sample is seen.  [default: n]",
    click.FloatRange(min=0, min_open=True),
)
@json_option
def bound(risk, kl, n, delta, lam, as_json):
    """Compute all PAC-Bayes bounds for given numbers."""
    from pacsent.maths import bounds
    from pacsent.maths.rounding import rounded_up

    rows = bounds.compare(risk, kl, n, delta, lam=lam)
    if as_json:
        inputs = {"empirical_risk": risk, "kl": kl, "n": n, "delta": delta}
        values = [{"bound": row.name, "value": row.value, "note": row.note} for row in rows]
        echo_json({**inputs, "bounds": values})
        return
    click.echo(f"risk {risk:g} on n = {n:,}, KL {kl:g} nats, delta {delta:g}")
    lines = [(row.name, rounded_up(row.value, 6), row.note) for row in rows]
    click.echo(noted(lines, width=terminal_width()))


def _certified(kind, encoder, texts, options):
    """The certificate, with the options that its kind has."""
    from pacsent import certify_encoder, paper

    functions = {
        "continuation": certify_encoder,
        "A": paper.certify_words,
        "B": paper.certify_documents,
        "C": paper.certify_squared_loss,
    }
    if kind == "continuation" and options.pop("posterior") != "auto":
        raise click.UsageError(
            "--posterior is for --kind A, B and C. Got --kind continuation. Leave it out."
        )
    arguments = {name: value for name, value in options.items() if value is not None}
    return functions[kind](encoder, texts, **arguments)


@cli.command()
@click.argument("model")
@click.argument("texts", type=TextsPath())
@option("-o --output", "Also write the certificate as JSON.", PATH)
@text_options
@option(
    "--kind",
    "continuation: what follows in new documents. The kinds of the paper: A: further words "
    "of these documents, if words were independent. "
    "B: new documents, for w-PB-neg. C: squared loss.",
    click.Choice(["continuation", "A", "B", "C"]),
    "continuation",
)
@method_option("PB-L2")
@encoder_option
@delta_option
@option(
    "--n-candidates",
    "Number of methods, settings or seeds that were compared on TEXTS, this one "
    "included; the bound is corrected for it.",
    POSITIVE,
    1,
)
@option(
    "--posterior",
    "Which posterior is certified (A, B, C).",
    click.Choice(["auto", "prior", "vectorizer"]),
    "auto",
)
@option("--bias", "Added to every score.  [default: log of --n-negatives]", float)
@option("--split", "Share of the documents (A, C: words) to train on.", float)
@option("--holdout", "Share held out, to compare the bound with.", float)
@overlap_option
@option("--random-state", "Seed of the split.  [default: drawn, and recorded]", NON_NEGATIVE)
@n_jobs_option
@output_options
def certify(model, texts, output, kind, method, overwrite, as_json, quiet, **options):
    """Certify how well vectors recognise words that follow.

    TEXTS is a file with one document per line, a table, or - for stdin. The word vectors of MODEL
    must not have been trained on it: documents they have seen are refused (exit status 1). Where it
    is not recorded which texts they have seen, the certificate says so. A method that learns from
    text is fitted again on the training part. The exit status is also 0 for a bound that is no
    better than guessing; a warning on stderr says so.
    """
    from pacsent.files import check_output, replacing

    check_output(output, [model, texts], overwrite=overwrite)
    read = read_texts(texts, options.pop("text_column"), options.pop("input_format"), quiet)
    vectorizer = open_vectorizer(model, method, default="PB-L2", fitted=False)
    if not quiet and vectorizer.learns_from_text:
        click.echo(
            f"certify: {vectorizer.method_name} is fitted again on a part of {texts} that is not "
            "certified; what it learned before is not used.",
            err=True,
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        options["verbose"] = not quiet
        certificate = _certified(kind, vectorizer, list(read), options)
    echo_warnings(caught)
    if output:
        with replacing(output) as file:
            file.write((certificate.to_json() + "\n").encode())
    click.echo(certificate.to_json() if as_json else str(certificate))


def _column(option, help, **how):
    """An option that names a column of a table."""
    return click.option(option, f"{option[2:]}_column", metavar="COLUMN", help=help, **how)


@cli.command("certify-predictions")
@click.argument("data", metavar="TABLE", type=TextsPath())
@option("-o --output", "Also write the certificate as JSON.", PATH)
@_column("--label", "Column of the right class.", default="label")
@_column("--prediction", "Column of the predicted class.", default="prediction")
@_column(
    "--probability",
    "Column of the probability that the prediction is right: bounds the "
    "Brier score and the log-loss.",
)
@_column(
    "--group",
    "Column of the group (author, book, day): the guarantee is for new groups, "
    "each of which counts as one example.",
)
@partial(text_options, more=" Duplicates are looked for in it.", default="text, if there is one")
@option("--classes", "All classes.  [default: those of --label]", metavar="A,B,...")
@option(
    "--recall",
    "Also bound the error rate among texts of these classes; all for every class.",
    metavar="A,B,...",
)
@option(
    "--precision",
    "Also bound the error rate among texts with these predictions, or all.",
    metavar="A,B,...",
)
@delta_option
@option(
    "--n-candidates",
    "Number of models, prompts or settings that were compared on TABLE, this one "
    "included; the bound is corrected for it.",
    POSITIVE,
    1,
)
@option(
    "--random-state", "Seed of the order of losses.  [default: drawn, and recorded]", NON_NEGATIVE
)
@output_options
def certify_predictions(data, output, overwrite, as_json, quiet, **given):
    """Certify how often the predictions in TABLE are right.

    TABLE (.csv, .tsv, .jsonl, .parquet) has a row for each text: its right class, and what a model,
    a language model or a person predicted without the right classes. A column of texts is searched
    for duplicates and near-duplicates, which are no independent examples. All bounds hold together
    with confidence 1 - delta.
    """
    from pacsent.files import check_output, replacing
    from pacsent.guarantees import certify_predictions
    from pacsent.text.tables import read_predictions

    check_output(output, [data], overwrite=overwrite)
    columns = {name: given.pop(name) for name in list(given) if name.endswith("_column")}
    rows = read_predictions(data, **columns, kind=given.pop("input_format"), report=say(quiet))
    for name in ("classes", "recall", "precision"):
        given[name] = _class_list(given[name]) or (None if name == "classes" else ())
    certificate = certify_predictions(
        rows.labels,
        rows.predictions,
        probabilities=rows.probabilities,
        texts=rows.texts,
        groups=rows.groups,
        **given,
    )
    if output:
        with replacing(output) as file:
            file.write((certificate.to_json() + "\n").encode())
    click.echo(certificate.to_json() if as_json else str(certificate))


def _class_list(listed):
    """The classes between commas; "all" stays a word."""
    if listed is None or listed == "all":
        return listed
    return [name.strip() for name in listed.split(",") if name.strip()]


@cli.command()
@click.argument("certificate", type=click.Path(exists=True, allow_dash=True))
@click.argument("texts", required=False, type=TextsPath())
@click.argument("model", required=False)
@label_options
@_column("--prediction", "Column of what was predicted, for a certificate of predictions.")
@_column("--group", "Column of the group, where groups were held out.")
@separator_option
@method_option("PB-L2")
@encoder_option
@json_option
@quiet_option
def verify(certificate, texts, model, as_json, quiet, **given):
    """Check a CERTIFICATE, alone or with texts and model.

    Alone, the bound is computed again from its parts. With TEXTS and MODEL every part is. A
    certificate of vectors is written by `pacsent certify -o`, one of a classifier by `pacsent
    classify certify --json`, one of predictions by `pacsent certify-predictions -o`. CERTIFICATE
    may also be the folder of a classifier that was trained with --holdout; it is MODEL then.

    For a classifier and for predictions, TEXTS is the table that was certified, or all that was
    given to `classify train`, with its labels, in their order. Predictions need no MODEL. The exit
    status is 1 where something does not agree.
    """
    from pacsent.guarantees import HeldOutCertificate, read_certificate
    from pacsent.paper import simulation  # noqa: F401 - certificates of the paper register

    if Path(certificate).is_dir():
        loaded, model = _of_model(certificate), certificate if texts else None
        loaded.verify()
    else:
        loaded = read_certificate(_json_text(certificate), certificate, verify=texts is None)
    of_rows = isinstance(loaded, HeldOutCertificate)
    alone = model is None and not (of_rows and "model" not in loaded.digests)
    if texts is not None and alone:
        raise click.UsageError("Give TEXTS and MODEL together, or neither.")
    if texts is None:
        checked = "the bound follows from its parts"
        unchecked = f"Not checked without TEXTS and MODEL: {', '.join(loaded.needs_texts)}."
    else:
        if not quiet:
            click.echo("verify: certifying once more ...", err=True)
        unchecked = "Everything was checked."
        checked = "the parts follow from the text and the model, and the bound from the parts"
        if of_rows:
            again = _verify_rows(loaded, texts, model, given, quiet)
            checked, unchecked = again.checked, f"Not checked: {again.unchecked}."
        else:
            loaded.verify(
                list(read_texts(texts, given["text_column"], given["input_format"], quiet)),
                open_vectorizer(model, given["method"], default="PB-L2", fitted=False),
            )
    show(
        {"verified": True, "checked": checked, "unchecked": unchecked},
        f"Verified: {checked}. {unchecked}\n{loaded}",
        as_json,
    )


def _of_model(folder):
    """The certificate in a model."""
    certificate = getattr(open_model(folder), "certificate_", None)
    if certificate is None:
        raise ValueError(
            f"{folder} must hold a model with a certificate. Got one without instead. Train with "
            "--holdout auto."
        )
    return certificate


def _verify_rows(found, path, model, given, quiet):
    """Check a certificate of a classifier or predictions with a table."""
    from pacsent.text.tables import read_predictions

    if model is None:
        columns = {name: given[name] for name in ("text_column", "group_column")}
        rows = read_predictions(
            path,
            **columns,
            label_column=given["label_column"] or "label",
            prediction_column=given["prediction_column"] or "prediction",
            probability_column=None,
            kind=given["input_format"],
            report=say(quiet),
        )
        X = rows.texts if "texts" in found.digests else list(range(len(rows.labels)))
        return found.verify(rows.predictions, X, rows.labels, groups=rows.groups)
    classifier = open_model(model)
    texts, cells, groups = read_labelled(path, given, quiet, given["group_column"])
    labels = labels_for(classifier, cells, given["label_separator"])
    return found.verify(classifier, texts, labels, groups=groups)


def _json_text(path) -> str:
    """The text of a JSON file or stdin, unpacked; one clear line where it is not UTF-8."""
    from pacsent.text.reading import Source

    with Source(path) as source:
        written = source.read(1 << 26)
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            f"{source.name} must be a certificate: JSON in UTF-8. Got another encoding instead. "
            "Write it again with pacsent certify -o, or convert it with iconv -t utf-8"
        ) from None


_COVERAGE = (
    "kind, setting",
    "replicates",
    "violations",
    "95 % interval",
    "bound",
    "true",
    "paper's violations",
    "paper's bound",
    "paper's true",
)


def _covered(c) -> list[str]:
    """A line of the table of `simulate`."""
    from pacsent.maths.rounding import rounded_up

    return [
        f"{c.kind}, {c.setting}",
        f"{c.n_replicates:,}",
        f"{c.n_violations:,}",
        f"[{c.low:.4f}, {c.high:.4f}]",
        rounded_up(c.mean_bound),
        f"{c.mean_risk:.4f}",
        f"{c.paper_violations:,}",
        rounded_up(c.paper_mean_bound),
        f"{c.paper_mean_risk:.4f}",
    ]


@cli.command()
@option("--kind", "Which certificate.", click.Choice(["continuation", "A", "B", "C", "all"]), "all")
@option(
    "--setting",
    "Vectors that know topics, that memorise; or text that drifts.",
    click.Choice(["topics", "memorising", "drift", "all"]),
    "all",
)
@option("--replicates", "Independent corpora.", POSITIVE, 1000)
@delta_option
@option("--random-state", "Seed.", NON_NEGATIVE, 0)
@option("--figure", "Also draw true risk against claimed bound.", metavar="FILE.png")
@output_options
def simulate(kind, setting, replicates, delta, random_state, figure, as_json, overwrite, quiet):
    """Count how often certificates fail on generated text.

    The true risk is known there, and the paper's own bound is computed next to ours.
    Documents are drawn from the paper's generative model; in the setting drift with words that
    come in bursts and topics that change, where A, as if words were independent, must fail. Exit
    status 1 if a certificate failed more often than delta allows where its assumption holds.
    """
    from pacsent.files import check_output
    from pacsent.paper import simulation

    if figure:
        from pacsent.paper import figures

        figures.require_altair()
        check_output(figure, overwrite=overwrite)
    kinds = list(simulation.KINDS) if kind == "all" else [kind]
    settings = list(simulation.SETTINGS) if setting == "all" else [setting]
    coverages, drawn = [], {}
    for kind_name in kinds:
        for name in settings:
            if name == "drift" and kind_name not in ("continuation", "A"):
                continue
            coverage, pairs = simulation.simulate(
                kind_name,
                name,
                replicates,
                delta=delta,
                random_state=random_state,
                verbose=not quiet,
                return_replicates=True,
            )
            coverages.append(coverage)
            if kind_name not in ("C", "continuation") and name != "drift":
                drawn[f"{kind_name}, {name}"] = pairs
    if figure:
        figures.coverage(drawn, figure)
    show(
        {"delta": delta, "coverage": [c.to_dict() for c in coverages]},
        table(_COVERAGE, list(map(_covered, coverages)), width=terminal_width()),
        as_json,
    )
    kept = [c.holds for c in coverages if (c.kind, c.setting) != ("A", "drift")]
    return 0 if all(kept) else 1
