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
    output_path,
    quiet_option,
    seeds_option,
)
from pacsent.cli.printing import show, table, terminal_width
from pacsent.cli.text_inputs import column_option, say, text_options

_data_option = option("--data", "Folder of the datasets.  [default: $PACSENT_DATA]", PATH)


@cli.command()
@click.argument("scored", nargs=-1, required=True, metavar="[METHOD WORDS] DATASET")
@partial(encoder_option, help="Score this encoder in place of METHOD with WORDS.")
@_data_option
@text_options
@column_option("label", "Column of the label.  [default: label]")
@seeds_option
@n_jobs_option
@json_option
@quiet_option
def evaluate(scored, data, seeds, n_jobs, as_json, quiet, **options):
    """Score vectors on DATASET by the paper's protocol.

    METHOD is a row of the paper's table or a method, WORDS the word vectors, DATASET a benchmark
    dataset or your own file as in `classify train`. Example: pacsent evaluate PB-L2 english a.csv
    """
    from pathlib import Path

    from pacsent.encoders import as_encoder
    from pacsent.paper import benchmark_datasets as datasets
    from pacsent.paper import evaluation

    encoder = given_encoder()
    if len(scored) != (3 if encoder is None else 1):
        raise click.UsageError(
            "Give METHOD, WORDS and DATASET, or --encoder PATH|URL and DATASET. Got "
            f"{' '.join(scored)} {'without' if encoder is None else 'with'} --encoder."
        )
    method, words, dataset = scored if encoder is None else (encoder, None, *scored)
    if words is not None:
        words = ModelPath(exists=True).convert(words, None, None)
    if dataset in datasets.DATASETS:
        loaded = datasets.load(dataset, data)
        if not isinstance(loaded, datasets.Dataset):
            raise click.UsageError(f"{dataset} has pairs, not classes: see pacsent reproduce.")
    elif Path(dataset).exists():
        kind = options.pop("input_format")
        loaded = datasets.read_labelled(dataset, kind=kind, report=say(quiet), **options)
    else:
        raise click.UsageError(
            f"DATASET must be one of {', '.join(datasets.DATASETS)} or a file. Got {dataset!r}."
        )
    result = evaluation.evaluate(
        method if encoder is None else as_encoder(encoder),
        loaded,
        None if words is None else datasets.load_word_vectors(words),
        seeds=range(seeds),
        n_jobs=n_jobs,
        verbose=not quiet,
    )
    click.echo(result.to_json().rstrip("\n") if as_json else str(result))


@cli.command()
@_data_option
@option("--words", "The word vectors.", ModelPath(exists=True), required=True)
@output_path("Folder to write.")
@option("--only", "Rows, datasets or kinds, separated by commas: PB-L2,imdb.")
@seeds_option
@flag("--quick", "Use a small grid and one seed, to try the whole run.")
@n_jobs_option
@json_option
@quiet_option
def reproduce(data, words, output, only, seeds, as_json, quiet, **options):
    """Run the paper's experiments again.

    Prints the paper's table next to ours. OUT/index.html is the report, OUT/results has each
    result; a run that was interrupted continues. Example: pacsent reproduce --words words -o out
    """
    from pathlib import Path

    from pacsent.paper import benchmark_datasets as datasets
    from pacsent.paper import figures, report, reproduction

    folder = datasets.data_folder(data)
    figures.require_altair()
    run = reproduction.reproduce(
        folder,
        datasets.load_word_vectors(words),
        output,
        only=only.split(",") if only else None,
        seeds=range(seeds),
        report=None if quiet else say(quiet),
        **options,
    )
    results = reproduction.read_results(Path(output) / "results")
    if not results:
        raise ValueError(f"No result could be made. {' '.join(run['skipped'].values())}")
    page = Path(output) / "index.html"
    report.write(results, output, reproduction.last_run(output) or run)
    click.echo(f"Report: {page}", err=True)
    data = {"output": output, "report": page, "run": run, "results": results}
    show(data, table(*report.accuracy_table(results), width=terminal_width()), as_json)
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

    Trains, certifies, abstains, explains, searches and detects drift. Example: pacsent demo -o demo
    """
    from pathlib import Path

    from pacsent.files import check_output
    from pacsent.maths.rounding import rounded_up
    from pacsent.paper import demo as demonstration

    check_output(output, overwrite=overwrite, folder=True)
    numbers = demonstration.run(output, random_state=random_state, n_jobs=n_jobs, say=say(quiet))
    page = Path(output) / "index.html"
    show(
        {"report": page, **numbers},
        f"Error at most {rounded_up(numbers['certified_error'], 3)} with 95% confidence; "
        f"measured on {numbers['n_new']:,} new messages: {numbers['test_error']:.3f}",
        as_json,
    )
    say(quiet)(f"\nReport: {page}")
