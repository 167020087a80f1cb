"""Commands that measure: evaluate, reproduce, demo."""

from functools import partial

import click

from pacsent.cli.command_line import (
    PATH,
    ModelPath,
    cli,
    encoder_option,
    flag,
    given_encoder,
    json_option,
    n_jobs_option,
    option,
    output_options,
    quiet_option,
    seeds_option,
)
from pacsent.cli.printing import echo_json, table, terminal_width
from pacsent.cli.text_inputs import label_options, say


@cli.command()
@click.argument("scored", nargs=-1, required=True, metavar="[METHOD WORDS] DATASET")
@partial(encoder_option, help="Score this encoder in place of METHOD with WORDS.")
@option("--data", "Folder of the datasets.  [default: $PACSENT_DATA]", PATH)
@option("--test", "A second file: the test part of your own DATASET.", PATH)
@label_options
@option("--lam lams", "Value to choose from; repeatable.", float, multiple=True)
@seeds_option
@n_jobs_option
@flag("--no-verify", "Accept a dataset whose checksum differs.")
@output_options
def evaluate(scored, data, test, lams, seeds, n_jobs, no_verify, **given):
    """Score vectors on DATASET by the paper's protocol.

    METHOD is a row of the table (pacsent reproduce --list) or a method of the paper. WORDS is the
    word vectors. DATASET is the name of a benchmark dataset, or your own file as in `classify
    train`. lam, C and L2 normalisation are chosen by five-fold cross-validation on the training
    part.
    """
    from pathlib import Path

    from pacsent.encoders import as_encoder
    from pacsent.paper import benchmark_datasets as datasets
    from pacsent.paper import evaluation as scores

    quiet, encoder = given["quiet"], given_encoder()
    if len(scored) != (3 if encoder is None else 1):
        raise click.UsageError(
            "Give METHOD, WORDS and DATASET, or --encoder PATH|URL and DATASET. Got "
            f"{' '.join(scored)} {'without' if encoder is None else 'with'} --encoder."
        )
    method, words, dataset = scored if encoder is None else (encoder, None, *scored)
    if words is not None:
        words = ModelPath(exists=True).convert(words, None, None)
    if dataset in datasets.DATASETS:
        loaded = datasets.load(dataset, data, verify=not no_verify)
        if not isinstance(loaded, datasets.Dataset):
            raise click.UsageError(f"{dataset} has pairs, not classes: see pacsent reproduce.")
    elif Path(dataset).exists():
        columns = {name: given[name] for name in ("text_column", "label_column")}
        columns["kind"] = given["input_format"]
        loaded = datasets.read_labelled(dataset, test=test, report=say(quiet), **columns)
    else:
        raise click.UsageError(
            f"DATASET must be one of {', '.join(datasets.DATASETS)} or a file. Got {dataset!r}."
        )
    result = scores.evaluate(
        method if encoder is None else as_encoder(encoder),
        loaded,
        None if words is None else datasets.load_word_vectors(words),
        lams=lams or None,
        seeds=range(seeds),
        n_jobs=n_jobs,
        verbose=not quiet,
    )
    if given["as_json"]:
        click.echo(result.to_json(), nl=False)
        return
    click.echo(str(result))
    for score in result.scores:
        chosen = {key: score[key] for key in ("lam", "C", "normalise") if score[key] is not None}
        settings = ", ".join(f"{key}={value}" for key, value in chosen.items())
        click.echo(f"  seed {score['seed']}: {score['accuracy']:.4f} ({settings})")


def _list_rows(context, parameter, wanted):
    if wanted and not context.resilient_parsing:
        from pacsent.paper.method_rows import ROWS

        for row in ROWS.values():
            click.echo(f"{row.name:18}{row.label}{'' if row.in_paper else '  (not in the paper)'}")
        context.exit()


@cli.command()
@option("--data", "Folder of the datasets.  [default: $PACSENT_DATA]", PATH)
@option("--words", "The word vectors.", ModelPath(exists=True), required=True)
@option("-o --output", "Folder to write.", PATH, required=True)
@option("--only", "Rows, datasets or kinds, separated by commas: PB-L2,imdb.")
@seeds_option
@flag("--quick", "Use a small grid and one seed, to try the whole run.")
@n_jobs_option
@option(
    "--format table_format",
    "How the table is printed.",
    click.Choice(["text", "md", "latex", "html"]),
    "text",
)
@option("--time-limit", "Seconds after which no further result is begun.", float)
@flag("--no-report", "Write result files only, no index.html or plots.")
@flag("--no-verify", "Accept datasets whose checksum differs.")
@json_option
@quiet_option
@flag(
    "--list",
    "List the rows of the table and exit.",
    is_eager=True,
    expose_value=False,
    callback=_list_rows,
)
def reproduce(data, words, output, only, table_format, no_report, as_json, quiet, **how):
    """Run the paper's experiments again.

    Prints the paper's table next to ours. Each result is one JSON file in OUT/results; a run that
    was interrupted continues where it stopped. OUT/index.html is the report, one file that opens
    offline. --only takes rows, datasets and kinds (paper, classification, few-labels, similarity,
    certificate, map).
    """
    from pathlib import Path

    from pacsent.paper import benchmark_datasets as datasets
    from pacsent.paper import figures, report, reproduction

    folder = datasets.data_folder(data)
    if not no_report:
        figures.require_altair()
    run = reproduction.reproduce(
        folder,
        datasets.load_word_vectors(words),
        output,
        only=only.split(",") if only else None,
        seeds=range(how.pop("seeds")),
        verify=not how.pop("no_verify"),
        report=None if quiet else say(quiet),
        **how,
    )
    results = reproduction.read_results(Path(output) / "results")
    if not results:
        reasons = " ".join(run["skipped"].values()) or "The time was up before the first."
        raise ValueError(f"No result could be made. {reasons}")
    if not no_report:
        report.write(results, output, reproduction.last_run(output) or run)
        click.echo(f"Report: {Path(output) / 'index.html'}", err=True)
    if as_json:
        page = None if no_report else Path(output) / "index.html"
        echo_json({"output": output, "report": page, "run": run, "results": results})
    elif table_format == "text":
        click.echo(table(*report.accuracy_table(results), width=terminal_width()))
    else:
        click.echo(report.format_table(report.accuracy_table(results), table_format))
    minutes, memory = run["seconds"] / 60, run["peak_memory_bytes"] / 2**30
    click.echo(
        f"{run['n_done']} results made, {run['n_kept']} kept, {minutes:.1f} minutes, "
        f"peak memory {memory:.1f} GB",
        err=True,
    )


@cli.command()
@option("-o --output", "Folder to write.", default="demo")
@option("--random-state", "Seed.", default=0)
@n_jobs_option
@output_options
def demo(output, random_state, n_jobs, overwrite, as_json, quiet):
    """Show a support team's job on 500 labelled texts.

    Trains a classifier, certifies its error rate, lets it abstain, makes prediction sets, explains,
    searches, and detects messages about other topics. OUT/index.html shows it.
    """
    from pathlib import Path

    from pacsent.files import check_output
    from pacsent.maths.rounding import rounded_up
    from pacsent.paper import demo as demonstration

    check_output(output, overwrite=overwrite, folder=True)
    numbers = demonstration.run(output, random_state=random_state, n_jobs=n_jobs, say=say(quiet))
    if as_json:
        echo_json({"report": Path(output) / "index.html", **numbers})
    else:
        click.echo(
            f"Error at most {rounded_up(numbers['certified_error'], 3)} with 95% confidence; "
            f"measured on {numbers['n_new']:,} new messages: {numbers['test_error']:.3f}"
        )
    say(quiet)(f"\nReport: {Path(output) / 'index.html'}")
