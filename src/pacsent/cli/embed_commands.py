"""Commands about sentence vectors: fit, embed."""

import os
import warnings

import click

from pacsent.cli import many_files as shards
from pacsent.cli.command_line import (
    PATH,
    ModelPath,
    batch_size_option,
    cli,
    echo_warnings,
    encoder_option,
    flag,
    json_lines_option,
    method_option,
    n_jobs_option,
    on_empty_option,
    open_vectorizer,
    option,
    output_options,
    overwrite_option,
    quiet_option,
)
from pacsent.cli.estimator_options import EstimatorCommand
from pacsent.cli.many_files import shard_options
from pacsent.cli.printing import counted, echo_json, show
from pacsent.cli.text_inputs import OneFile, TextsPath, read_texts, text_options


def _list_methods(context, parameter, wanted):
    if wanted and not context.resilient_parsing:
        from pacsent.encoders.methods import METHODS

        click.echo("\n".join(METHODS))
        context.exit()


def _model_names(command):
    return flag(
        "--model-names",
        "List the methods and stop.",
        is_eager=True,
        expose_value=False,
        callback=_list_methods,
    )(command)


def _methods() -> list[type]:
    from pacsent.encoders.methods import ESTIMATORS

    return list(ESTIMATORS.values())


@cli.command(cls=EstimatorCommand, estimators=_methods, without=("word_vectors", "swap_roles"))
@click.argument("method")
@click.argument("words", type=ModelPath(exists=True))
@click.argument("texts", type=TextsPath())
@option("-o --output", "Folder of the model.", PATH, required=True)
@text_options
@n_jobs_option
@option(
    "--words-by",
    "Keep the word vectors in the model's folder, or only where WORDS is.",
    click.Choice(["copy", "reference"]),
    "copy",
)
@output_options
@_model_names
def fit(method, words, texts, output, words_by, overwrite, as_json, quiet, **given):
    """Fit a METHOD for sentence vectors on TEXTS.

    TEXTS is a file with one text per line, a table, or - for stdin. WORDS is the word vectors: a
    folder of pacsent, a file of any format that `pacsent convert` reads, or `english`, which comes
    with the package. An option that is left out has the method's own default.
    """
    from pacsent.encoders.methods import METHODS, make
    from pacsent.progress import bar
    from pacsent.storage import check_place, save
    from pacsent.words import formats

    if method not in METHODS:
        raise click.BadParameter(f"one of {', '.join(METHODS)}", param_hint="METHOD")
    check_place(output, [words, texts], overwrite=overwrite)
    read = read_texts(texts, given.pop("text_column"), given.pop("input_format"), quiet)
    params = {name: value for name, value in given.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        vectors = formats.read(words, verbose=not quiet)
        check_parameters(make(method, vectors), params)
        try:
            vectorizer = make(method, vectors, **params)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        if "verbose" in vectorizer.get_params(deep=False):
            vectorizer.set_params(verbose=not quiet)
        with bar(f"fit {method}", unit="sentences", enabled=not quiet) as shown:

            def sentences():
                for sentence in read:
                    shown.advance()
                    yield sentence

            vectorizer.fit(sentences())
        save(vectorizer, output, words=words_by, overwrite=overwrite)
    echo_warnings(caught)
    result = {"method": method, "words": str(words), "output": str(output), **_counts(vectorizer)}
    show(result, f"wrote  {output}: {method}, {_report(vectorizer)}", as_json)


def check_parameters(vectorizer, params):
    """Refuse options that the method does not have, by the names they have in the shell."""
    known = vectorizer.get_params(deep=False)
    for name in params:
        if name not in known:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{vectorizer.method_name} takes no {option}.")


def _counts(vectorizer) -> dict:
    return {
        "n_sentences": vectorizer.n_sentences_,
        "n_empty": vectorizer.n_empty_,
        "coverage": vectorizer.coverage_,
    }


def _report(vectorizer) -> str:
    n, empty, coverage = vectorizer.n_sentences_, vectorizer.n_empty_, vectorizer.coverage_
    if coverage is None:  # an encoder of another program
        return f"{counted(n, 'sentence')}, {empty:,} with a vector of zeros"
    known = "no words at all" if coverage != coverage else f"{100 * coverage:.1f} % of words known"
    return f"{counted(n, 'sentence')}, {known}, {empty:,} without a known word"


@cli.command()
@click.argument("model", type=ModelPath(encoders=True, exists=True, file_okay=False))
@click.argument("sources", nargs=-1, metavar="[TEXTS]...")
@option(
    "-o --output",
    "File ending in .npy or .tsv (means), .npz, .csv, .jsonl or .parquet (means and "
    "variances). Tab-separated means on stdout when left out. For many files: a folder, or an "
    "address such as s3://bucket/folder.",
    PATH,
)
@flag("--ids", "Lines are ID<TAB>TEXT; the ids are written as the column `id`.")
@flag("--keep-text", "Also write the texts.")
@method_option()
@encoder_option
@n_jobs_option
@batch_size_option
@on_empty_option
@shard_options
@overwrite_option
@json_lines_option
@quiet_option
@_model_names
def embed(model, sources, output, quiet, overwrite, as_json, **given):
    """Turn TEXTS into sentence vectors.

    TEXTS is a file with one text per line, a table (.csv, .tsv, .jsonl, .parquet), or stdin when
    left out. MODEL is a folder that `pacsent fit` wrote, or word vectors (`english` comes with the
    package) for a --method that learns nothing from text. Works on a stream: memory does not grow
    with the text. Lines on stderr say what was read, how many words were known and how many texts
    had none (mean 0, variance missing).

    The columns are the same in .npz, .jsonl and .parquet: those that are kept (`id` with --ids,
    `text` with --keep-text, those of --keep-columns), then `mean` and `variance`. A .csv has a
    column for each dimension. A .tsv has no header unless --keep-columns is given: the id is the
    first column and the text the last.

    Many files, folders, globs and addresses (s3://, gs://, hf://) are worked on file by file: -o is
    then a folder that gets one output for each, written whole or not at all, and a manifest.json
    with checksums, counts and failures. Run again, the command continues where it was.
    """
    how = shards.pop_options(given)
    if shards.is_many(sources, output, how) or _is_parquet_alone(sources, output, how):
        from pacsent.scale import embed_shards

        if given.pop("ids"):
            raise click.UsageError(
                "--ids is for one file of lines. Keep the column: --keep-columns id"
            )
        column, kept = how["text_column"] or "text", list(how["keep_columns"])
        if given.pop("keep_text") and column not in kept and kept != ["*"]:
            kept.append(column)
        job = {"method": given.pop("method"), "n_jobs": given.pop("n_jobs"), "keep_columns": kept}
        params = {name: value for name, value in given.items() if value is not None}
        if params.get("on_empty") == "warn":
            del params["on_empty"]
        manner = {"overwrite": overwrite, "quiet": quiet, "as_json": as_json}
        shards.run_shards(embed_shards, model, sources, output, how, params=params, **job, **manner)
        return
    path = sources[0] if sources else "-"
    shards.check_source(path)
    vectorizer, n_bad = _embed_one(model, path, output, how, given, overwrite, quiet, as_json)
    if as_json and output not in (None, "-"):
        echo_json({"model": model, "output": output, **_counts(vectorizer)})
    if not quiet:
        click.echo(_report(vectorizer), err=True)
    if n_bad:
        click.get_current_context().exit(1)


def _is_parquet_alone(sources, output, how) -> bool:
    """Whether one Parquet file becomes a table, which is done without a Python string per text."""
    from pacsent.text.tables import kind_of

    return (
        len(sources) == 1
        and os.path.isfile(sources[0])
        and kind_of(os.path.basename(sources[0]))[0] == "parquet"
        and sources[0].lower().endswith((".parquet", ".pq"))
        and how["input_format"] in (None, "parquet")
        and str(output).lower().endswith((".parquet", ".jsonl"))
    )


def _embed_one(model, path, output, how: dict, given: dict, overwrite, quiet, as_json):
    """One file or stdin to one file or stdout; the vectorizer that did it, and the bad rows."""
    import numpy as np

    from pacsent.files import check_output
    from pacsent.progress import bar
    from pacsent.text import result_files

    ids, keep_text = given.pop("ids"), given.pop("keep_text")
    suffix = ".jsonl" if as_json else "plain"
    if output is not None and output != "-":
        texts = keep_text or bool(how["keep_columns"])
        try:
            suffix = result_files.check_suffix(output, ids=ids, texts=texts)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="-o") from None
    if suffix == ".tsv" and not how["keep_columns"]:
        suffix = "plain"
    check_output(output, [model, path], overwrite=overwrite)
    vectorizer = _opened(model, given)
    n_dims = len(vectorizer.get_feature_names_out())
    wide = suffix in (".csv", ".tsv", "plain")
    own = [f"mean_{i}" for i in range(n_dims)] if wide else ["mean"]
    own += ["variance"] if suffix not in (".npy", "plain") else []
    read = OneFile(path, how, own, ids=ids, keep_text=keep_text, quiet=quiet)

    def ordered(kept, means, variances):
        if suffix == "plain":  # the id first, the text last
            return {
                **{k: kept[k] for k in kept if k == "id"},
                "mean": means,
                **{k: kept[k] for k in kept if k != "id"},
            }
        columns = {**kept, "mean": means, "variance": variances}
        if suffix == ".npy":
            del columns["variance"]
        return columns

    def batches():
        yield ordered(read.take(0), np.zeros((0, n_dims), np.float32), np.zeros(0))
        for means, variances in vectorizer.stream(read.texts()):
            yield ordered(read.take(len(variances)), means, variances)
            shown.advance(len(variances))

    with (
        warnings.catch_warnings(record=True) as caught,
        bar("embed", unit="texts", enabled=not quiet) as shown,
    ):
        warnings.simplefilter("always", UserWarning)
        result_files.write(batches(), output, overwrite=overwrite, suffix=suffix)
    echo_warnings(w for w in caught if not quiet or w.category.__name__ != "EmptySentenceWarning")
    return vectorizer, len(read.bad)


def _opened(model, given: dict):
    """The vectorizer of a command, with the parameters that were given."""
    vectorizer = open_vectorizer(model, given.pop("method"))
    params = {name: value for name, value in given.items() if value is not None}
    check_parameters(vectorizer, params)
    vectorizer.set_params(**params)
    if hasattr(vectorizer, "word_vectors"):
        vectorizer._validate_params()
    return vectorizer
