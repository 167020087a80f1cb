"""Commands about certificates: bound, certify, certify-predictions, verify, simulate."""

import textwrap
from pathlib import Path

import click

from pacsent.cli.command_line import (
    POSITIVE,
    PROBABILITY,
    ModelPath,
    cli,
    delta_option,
    encoder_option,
    json_option,
    method_option,
    n_candidates_option,
    open_model,
    open_vectorizer,
    option,
    output_options,
    output_path,
    overlap_option,
    quiet_option,
    random_state_option,
    warnings_once,
)
from pacsent.cli.printing import show, show_certificate, table, terminal_width
from pacsent.cli.text_inputs import (
    TextsPath,
    column_option,
    label_options,
    read_labelled,
    read_texts,
    say,
    text_options,
)


@cli.command()
@option("--risk", "Empirical risk.", click.FloatRange(0, 1), required=True)
@option("--kl", "KL(Q||P) in nats.", click.FloatRange(min=0), required=True)
@option("--n", "Independent examples.", POSITIVE, required=True)
@delta_option
@json_option
def bound(risk, kl, n, delta, as_json):
    """Compute all PAC-Bayes bounds for given numbers.

    Example: pacsent bound --risk 0.1 --kl 5 --n 200
    """
    from pacsent.maths import bounds
    from pacsent.maths.rounding import rounded_up

    rows = bounds.compare(risk, kl, n, delta)
    data = {
        "empirical_risk": risk,
        "kl": kl,
        "n": n,
        "delta": delta,
        "bounds": [{"bound": row.name, "value": row.value, "note": row.note} for row in rows],
    }
    lines = [f"risk {risk:g} on n = {n:,}, KL {kl:g} nats, delta {delta:g}"]
    for row in rows:
        line = f"{rounded_up(row.value, 6)}  {row.name}: {row.note}"
        lines += textwrap.wrap(line, terminal_width() or 200, subsequent_indent=" " * 10)
    show(data, "\n".join(lines), as_json)


@cli.command()
@click.argument("model")
@click.argument("texts", type=TextsPath())
@output_path("Also write the certificate as JSON.", required=False)
@text_options
@option(
    "--kind",
    "continuation: what follows in new documents. The kinds of the paper: A: further words of "
    "these documents, if words were independent. B: new documents, for w-PB-neg. C: squared loss.",
    click.Choice(["continuation", "A", "B", "C"]),
    "continuation",
)
@method_option("PB-L2")
@encoder_option
@delta_option
@n_candidates_option
@option("--split", "Fraction of the documents (A, C: words) to train on.", PROBABILITY)
@overlap_option
@random_state_option
@output_options
def certify(model, texts, output, kind, method, overwrite, as_json, **options):
    """Certify how well vectors recognise words that follow.

    TEXTS has one document per line, or is a table; the word vectors of MODEL must not have been
    trained on it. Example: pacsent certify english notes.txt -o certificate.json
    """
    from pacsent import certify_encoder, paper
    from pacsent.files import check_output

    functions = {
        "continuation": certify_encoder,
        "A": paper.certify_words,
        "B": paper.certify_documents,
        "C": paper.certify_squared_loss,
    }
    check_output(output, [model, texts], overwrite=overwrite)
    read = read_texts(texts, options)
    verbose = not options.pop("quiet")
    vectorizer = open_vectorizer(model, method, default="PB-L2", fitted=False)
    if vectorizer.learns_from_text:
        say(not verbose)(
            f"certify: {vectorizer.method_name} is fitted again on a part of {texts} that is not "
            "certified; what it learned before is not used."
        )
    params = {name: value for name, value in options.items() if value is not None}
    with warnings_once():
        certificate = functions[kind](vectorizer, list(read), verbose=verbose, **params)
    show_certificate(certificate, output, as_json)


def _split_classes(context, parameter, value):
    """The classes between commas; "all" stays a word."""
    if value is None or value == "all":
        return value
    return [name.strip() for name in value.split(",") if name.strip()]


@cli.command("certify-predictions")
@click.argument("data", metavar="TABLE", type=TextsPath())
@output_path("Also write the certificate as JSON.", required=False)
@column_option("label", "Column of the right class.", default="label")
@column_option("prediction", "Column of the predicted class.", default="prediction")
@column_option("group", "Column of the group (author, book, day): the guarantee is for new groups.")
@text_options
@option(
    "--classes",
    "All classes.  [default: those of the labels]",
    metavar="A,B,...",
    callback=_split_classes,
)
@option(
    "--recall",
    "Also bound the error rate among texts of these classes; all for every class.",
    metavar="A,B,...",
    callback=_split_classes,
)
@option(
    "--precision",
    "Also bound the error rate among texts with these predictions, or all.",
    metavar="A,B,...",
    callback=_split_classes,
)
@delta_option
@n_candidates_option
@random_state_option
@output_options
def certify_predictions(data, output, overwrite, as_json, quiet, **options):
    """Certify how often the predictions in TABLE are right.

    TABLE has a row for each text: its right class, and what a model, a language model or a person
    predicted. A column of texts is searched for near-duplicates. Example: pacsent
    certify-predictions answers.csv --prediction-column gpt
    """
    from pacsent.files import check_output
    from pacsent.guarantees import certify_predictions
    from pacsent.text.tables import read_predictions

    check_output(output, [data], overwrite=overwrite)
    columns = {name: options.pop(name) for name in list(options) if name.endswith("_column")}
    rows = read_predictions(data, **columns, kind=options.pop("input_format"), report=say(quiet))
    certificate = certify_predictions(
        rows.labels,
        rows.predictions,
        texts=rows.texts,
        groups=rows.groups,
        classes=options.pop("classes"),
        recall=options.pop("recall") or (),
        precision=options.pop("precision") or (),
        **options,
    )
    show_certificate(certificate, output, as_json)


@cli.command()
@click.argument("certificate", type=ModelPath(exists=True, allow_dash=True))
@click.argument("texts", required=False, type=TextsPath())
@click.argument("model", required=False)
@label_options
@column_option("prediction", "Column of the predictions that were certified.", default="prediction")
@column_option("group", "Column of the group, where groups were held out.")
@method_option("PB-L2")
@encoder_option
@json_option
@quiet_option
@click.pass_context
def verify(context, certificate, texts, model, as_json, quiet, **options):
    """Check a CERTIFICATE, alone or with texts and model.

    Alone, the bound is computed again from its parts; with TEXTS and MODEL every part is.
    CERTIFICATE may also be the folder of a model: its checksums are checked, and its certificate.
    Exit status 1 where something does not agree. Example: pacsent verify certificate.json
    """
    from pacsent import storage
    from pacsent.guarantees import HeldOutCertificate, read_certificate
    from pacsent.paper import simulation  # noqa: F401 - certificates of the paper register

    checks: list[dict] = []
    if Path(certificate).is_dir():
        checks = storage.check(certificate)
        intact = all(step["ok"] for step in checks)
        loaded = getattr(open_model(certificate), "certificate_", None) if intact else None
        lines = [f"{'ok' if c['ok'] else 'DAMAGED':<9}{c['what']}: {c['found']}" for c in checks]
        if loaded is None:
            show({"verified": intact, "checks": checks}, "\n".join(lines), as_json)
            context.exit(0 if intact else 1)
        loaded.verify()
        model = certificate if texts else None
    else:
        loaded = read_certificate(_read_json(certificate), certificate, verify=texts is None)
    of_rows = isinstance(loaded, HeldOutCertificate)
    if texts is not None and model is None and not (of_rows and "model" not in loaded.digests):
        raise click.UsageError("Give TEXTS and MODEL together, or neither.")
    options["quiet"] = quiet
    if texts is None:
        checked = "the bound follows from its parts"
        unchecked = f"Not checked without TEXTS and MODEL: {', '.join(loaded.needs_texts)}."
    elif of_rows:
        result = _verify_rows(loaded, texts, model, options)
        checked, unchecked = result.checked, f"Not checked: {result.unchecked}."
    else:
        vectorizer = open_vectorizer(model, options["method"], default="PB-L2", fitted=False)
        loaded.verify(list(read_texts(texts, options)), vectorizer)
        checked = "the parts follow from the text and the model, and the bound from the parts"
        unchecked = "Everything was checked."
    data = {"verified": True, "checked": checked, "unchecked": unchecked, "checks": checks}
    show(data, f"Verified: {checked}. {unchecked}\n{loaded}", as_json)


def _verify_rows(certificate, path, model, options: dict):
    """Check a certificate of a classifier or predictions with a table."""
    from pacsent.text.tables import read_predictions

    if model is not None:
        classifier = open_model(model)
        texts, labels, groups = read_labelled(path, options, classifier)
        return certificate.verify(classifier, texts, labels, groups=groups)
    names = ("text_column", "group_column", "prediction_column")
    rows = read_predictions(
        path,
        **{name: options[name] for name in names},
        label_column=options["label_column"] or "label",
        kind=options["input_format"],
        report=say(options["quiet"]),
    )
    X = rows.texts if "texts" in certificate.digests else list(range(len(rows.labels)))
    return certificate.verify(rows.predictions, X, rows.labels, groups=rows.groups)


def _read_json(path) -> str:
    """The text of a JSON file or stdin; one clear line where it is not UTF-8."""
    from pacsent.text.reading import Source

    with Source(path) as source:
        content = source.read(1 << 26)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            f"{source.name} must be a certificate: JSON in UTF-8. Got another encoding instead. "
            "Write it again with pacsent certify -o, or convert it with iconv -t utf-8"
        ) from None


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
@option("--random-state", "Seed.", click.IntRange(min=0), 0)
@json_option
@quiet_option
def simulate(kind, setting, replicates, delta, random_state, as_json, quiet):
    """Count how often certificates fail on generated text.

    The true risk is known there. Exit status 1 if a certificate failed more often than delta allows
    where its assumption holds. Example: pacsent simulate --kind continuation --replicates 100
    """
    from pacsent.maths.rounding import rounded_up
    from pacsent.paper import simulation

    coverages = [
        simulation.simulate(
            kind_name,
            name,
            replicates,
            delta=delta,
            random_state=random_state,
            verbose=not quiet,
        )
        for kind_name in (simulation.KINDS if kind == "all" else [kind])
        for name in (simulation.SETTINGS if setting == "all" else [setting])
        if name != "drift" or kind_name in ("continuation", "A")
    ]
    columns = ["kind, setting", "replicates", "violations", "95 % interval", "bound", "true"]
    columns += ["paper's violations", "paper's bound", "paper's true"]
    rows = [
        [
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
        for c in coverages
    ]
    data = {"delta": delta, "coverage": [c.to_dict() for c in coverages]}
    show(data, table(columns, rows, width=terminal_width()), as_json)
    # In the setting drift A, as if words were independent, must fail.
    kept = [c.holds for c in coverages if (c.kind, c.setting) != ("A", "drift")]
    return 0 if all(kept) else 1
