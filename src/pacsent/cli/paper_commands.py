"""Commands about the paper: paper reproduce, score, continuation, bound, simulate."""

from pathlib import Path
from typing import Any

import click

from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.printing import echo, show, show_certificate
from pacsent.optional import install_hint


@cli.group()
def paper() -> None:
    """Repeat the experiments of Nozawa and Sato (2019)."""


_data_option = params.option("--data", "Folder of datasets.  [default: $PACSENT_DATA]", params.PATH)
_kind_option = params.option(
    "--kind",
    "continuation: what follows in new documents. The kinds of the paper: A: further words of "
    "these documents, if words were independent. B: new documents, for w-PB-neg. C: squared loss. "
    "D: a posterior over heuristics that was chosen on all documents.",
    click.Choice(["continuation", "A", "B", "C", "D"]),
    "continuation",
)


_normalize_option = params.option(
    "--normalize",
    "How texts become words. paper: the last stage of the paper's filter. wikifil: the whole "
    "filter, which also removes markup such as <br />.",
    click.Choice(["paper", "wikifil"]),
    "paper",
)


@paper.command()
@click.argument("method", metavar="METHOD|ENCODER")
@click.argument("dataset")
@params.option("--encoder", "The word vectors of METHOD.", params.ModelPath())
@_data_option
@_normalize_option
@params.text_columns
@params.column("label", "Column of the label.  [default: label]")
@params.seeds
@params.n_jobs
@params.reports
def score(
    method: str,
    dataset: str,
    encoder: str | None,
    data: str | None,
    normalize: str,
    seeds: int,
    n_jobs: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Score vectors on DATASET by the paper's protocol.

    METHOD is a row of the paper's table or a method, and needs --encoder; ENCODER is a folder or
    URL. DATASET is a benchmark dataset or your own file as in `pacsent train`. Example: pacsent
    paper score PB-L2 reviews.csv --encoder english
    """
    from pacsent.paper import benchmark_datasets as datasets
    from pacsent.paper import evaluation
    from pacsent.sentences import as_encoder

    loaded: Any
    if Path(dataset).is_file():
        kind = options.pop("input_format")
        loaded = datasets.read_labelled(dataset, kind=kind, report=inputs.say(quiet), **options)
    else:
        loaded = datasets.load(dataset, data)
        if not isinstance(loaded, datasets.Dataset):
            raise click.UsageError(f"{dataset} has pairs: see pacsent paper reproduce.")

    vectorizer: Any = method
    words = None
    if encoder is None:
        vectorizer = as_encoder(method)
    else:
        words = datasets.load_word_vectors(encoder, normalize)
    result = evaluation.evaluate(
        vectorizer, loaded, words, seeds=range(seeds), n_jobs=n_jobs, verbose=not quiet
    )
    text = result.to_json().rstrip("\n") if as_json else str(result)
    echo(text)


@paper.command()
@params.option(
    "--data",
    "Folder of datasets, or 'books': passages that ship with pacsent.  [default: $PACSENT_DATA]",
    params.PATH,
)
@params.option(
    "--encoder", "The word vectors. Of 'books' they are trained if left out.", params.ModelPath()
)
@params.output("Folder to write.")
@params.option("--only", "Rows, datasets or kinds, separated by commas: PB-L2,imdb.")
@params.seeds
@params.flag("--one-split", "Use one split of SUBJ and MR for all seeds.")
@_normalize_option
@params.flag("--quick", "Use a small grid and one seed, to try the whole run.")
@params.n_jobs
@params.reports
def reproduce(
    data: str | None,
    encoder: str | None,
    output: str,
    only: str | None,
    seeds: int,
    normalize: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Run the paper's experiments again.

    Prints the paper's table next to ours. OUT/index.html is the report, OUT/results has each
    result; a run that was interrupted continues. Nothing has to be downloaded for --data books: who
    wrote a passage? Word vectors are trained on other passages first; other data needs --encoder.
    Example: pacsent paper reproduce --data books -o out
    """
    from pacsent.paper import benchmark_datasets as datasets
    from pacsent.paper import books, figures, report, reproduction

    if not figures.altair_found():
        inputs.say(quiet)(f"Altair is not installed: no charts. {install_hint('report')}")
    is_books = data == datasets.BOOKS
    if encoder is not None:
        words = datasets.load_word_vectors(encoder, normalize)
    elif is_books:
        words_folder = Path(output) / "words"
        words = books.train_words(words_folder, n_jobs=options["n_jobs"], report=inputs.say(quiet))
    else:
        raise click.UsageError("Missing option '--encoder'. Only --data books trains its own.")

    source: Any = data if is_books else datasets.data_folder(data)
    run = reproduction.reproduce(
        source,
        words,
        output,
        only=only.split(",") if only else None,
        seeds=range(seeds),
        report=None if quiet else inputs.say(quiet),
        **options,
    )
    results = reproduction.read_results(Path(output) / "results")
    if not results:
        reasons = " ".join(run["skipped"].values())
        raise ValueError(f"No result could be made. {reasons}")

    report.write(results, output, reproduction.last_run(output) or run)
    page = Path(output) / "index.html"
    echo(f"Report: {page}", err=True)
    table = report.accuracy_table(results)
    document = {"output": output, "report": page, "run": run, "results": results}
    show(document, report.format_table(table, "md"), as_json)


@paper.command()
@click.argument("model")
@params.texts
@params.output("Also write the certificate as JSON.", required=False)
@params.text_columns
@_kind_option
@params.method
@params.delta
@params.n_candidates
@params.probability("--split", "Fraction of the documents (A, C: words) to train on.")
@params.overlap
@params.random_state
@params.outputs
def continuation(
    model: str,
    texts: str,
    output: str | None,
    kind: str,
    method: str | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Certify how well vectors recognise words that follow.

    TEXTS has one document per line, or is a table; the word vectors of MODEL must not have been
    trained on it. Example: pacsent paper continuation english notes.txt -o certificate.json
    """
    from pacsent import certify_encoder
    from pacsent.files import check_output

    check_output(output, [model, texts], overwrite=overwrite)
    documents = inputs.read_texts(texts, options)
    verbose = not options.pop("quiet")
    encoder = inputs.open_encoder(model, method, default="PB-L2", fitted=False)
    if encoder.learns_from_text:
        inputs.say(not verbose)(
            f"certify: {encoder.method_name} is fitted again on a part of {texts}, set aside."
        )
    settings = {name: value for name, value in options.items() if value is not None}
    certificate = certify_encoder(encoder, list(documents), kind=kind, verbose=verbose, **settings)
    show_certificate(certificate, output, as_json)


@paper.command()
@_kind_option
@params.option(
    "--setting",
    "topics: vectors that know topics. memorising: random vectors. drift: topics change.",
    click.Choice(["topics", "memorising", "drift"]),
    "topics",
)
@params.option("--n-replicates", "Samples of documents to certify.", params.POSITIVE, 100)
@params.delta
@params.fixed_random_state
@params.reports
def simulate(
    kind: str, setting: str, n_replicates: int, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Count how often a certificate is below the true risk.

    Documents are drawn from the paper's generative model, whose risk is known. Kind A must fail
    under drift. Example: pacsent paper simulate --kind A --setting topics
    """
    from pacsent import paper

    coverage = paper.simulate(kind, setting, n_replicates, verbose=not quiet, **options)
    show(coverage.to_dict(), str(coverage), as_json)


@paper.command()
@params.option("--risk", "Empirical risk.", click.FloatRange(0, 1), required=True)
@params.option("--kl", "KL(Q||P) in nats.", click.FloatRange(min=0), required=True)
@params.option("--n", "Independent examples.", params.POSITIVE, required=True)
@params.delta
@params.as_json
def bound(risk: float, kl: float, n: int, delta: float, as_json: bool) -> None:
    """Compute all PAC-Bayes bounds for given numbers.

    Example: pacsent paper bound --risk 0.1 --kl 5 --n 200
    """
    from pacsent.bounds import pac_bayes as bounds
    from pacsent.bounds.rounding import rounded_up

    rows = bounds.compare(risk, kl, n, delta)
    lines = []
    data = []
    for name, value, note in rows:
        lines.append(f"{rounded_up(value, 6)}  {name}: {note}")
        data.append({"bound": name, "value": value, "note": note})
    show({"bounds": data}, "\n".join(lines), as_json)
