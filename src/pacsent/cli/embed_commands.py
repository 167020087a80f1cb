"""Commands about sentence vectors: fit, embed, distill, export, push."""

import click

from pacsent.cli.command_line import (
    FILE,
    NON_NEGATIVE,
    PATH,
    POSITIVE,
    ModelPath,
    check_method,
    cli,
    delta_option,
    device_option,
    flag,
    given_encoder,
    json_option,
    method_option,
    n_jobs_option,
    open_vectorizer,
    option,
    output_options,
    output_path,
    overwrite_option,
    warnings_once,
)
from pacsent.cli.estimator_options import EstimatorCommand
from pacsent.cli.jobs import job_options, run_job
from pacsent.cli.printing import counted, echo_json, show
from pacsent.cli.text_inputs import TextsPath, read_texts, text_options


def _methods() -> list[type]:
    from pacsent.encoders.methods import ESTIMATORS

    return list(ESTIMATORS.values())


@cli.command(cls=EstimatorCommand, estimators=_methods, without=("word_vectors", "swap_roles"))
@click.argument("method")
@click.argument("words", type=ModelPath(exists=True))
@click.argument("texts", type=TextsPath())
@output_path("Folder of the model.")
@text_options
@n_jobs_option
@output_options
def fit(method, words, texts, output, overwrite, as_json, **options):
    """Fit a METHOD for sentence vectors on TEXTS.

    WORDS is word vectors: a folder, a file that `pacsent convert` reads, or english. An option that
    is left out has the method's own default. Example: pacsent fit PB-L2 english notes.txt -o model
    """
    from pacsent.encoders.methods import make
    from pacsent.storage import check_place, save
    from pacsent.words import formats

    check_method(method, "METHOD")
    check_place(output, [words, texts], overwrite=overwrite)
    read = read_texts(texts, options, progress=True)
    verbose = not options.pop("quiet")
    params = {name: value for name, value in options.items() if value is not None}
    with warnings_once():
        vectors = formats.read(words, verbose=verbose)
        known = make(method, vectors).get_params(deep=False)
        for name in params:
            if name not in known:
                raise click.UsageError(f"{method} takes no --{name.replace('_', '-')}.")
        if "verbose" in known:
            params["verbose"] = verbose
        try:
            vectorizer = make(method, vectors, **params)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        vectorizer.fit(read)
        save(vectorizer, output, overwrite=overwrite)
    n, n_empty = vectorizer.n_sentences_, vectorizer.n_empty_
    counts = {"n_sentences": n, "n_empty": n_empty, "coverage": vectorizer.coverage_}
    show(
        {"method": method, "words": str(words), "output": str(output), **counts},
        f"wrote  {output}: {method}, {counted(n, 'sentence')}, "
        f"{100 * vectorizer.coverage_:.1f} % of words known, {n_empty:,} without a known word",
        as_json,
    )


@cli.command()
@click.argument("model", type=ModelPath(encoders=True, exists=True, file_okay=False))
@method_option()
@job_options
def embed(model, method, sources, **options):
    """Turn TEXTS into sentence vectors.

    TEXTS is a file with one text per line, a table, or stdin when left out; many files, folders,
    globs and URLs are worked on file by file, and the same command resumes. Writes the columns
    `mean` and `variance`. Example: pacsent embed english notes.txt -o vectors.npy
    """
    from pacsent.scale import Embed

    if method is not None:
        open_vectorizer(model, method)
    run_job(Embed(model, method, {}, given_encoder()), sources, options)


@cli.command()
@click.argument("texts", type=TextsPath())
@output_path("Folder of the student.")
@option("--vectors", "The teacher's vectors of TEXTS: a .npy file with one row per text.", FILE)
@option("--encoder", "The teacher: a model, or the URL of an embedding server.", metavar="PATH|URL")
@text_options
@option("--n-words", "Words with a vector.", POSITIVE, 60_000)
@option("--n-subwords", "Subwords that other words are composed of.", NON_NEGATIVE, 5_000)
@option(
    "--normalise",
    "How text becomes words. auto: paper for text in the letters a-z, else unicode.",
    click.Choice(["auto", "paper", "unicode", "jieba", "janome", "pythainlp"]),
    "auto",
)
@option("--n-epochs", "Passes over the texts.", NON_NEGATIVE, 3)
@delta_option
@option("--random-state", "Seed.", NON_NEGATIVE, 0)
@option(
    "--checkpoint-dir",
    "Folder for the state after each pass; the same command resumes from it.",
    click.Path(file_okay=False),
)
@device_option
@output_options
def distill(texts, output, vectors, encoder, overwrite, as_json, **options):
    """Distil an encoder into a static model on TEXTS.

    The guarantee on the cosines to the teacher is measured on a tenth of the texts that is held
    out. Example: pacsent distill texts.txt --vectors teacher.npy -o student
    """
    import numpy as np

    from pacsent.guarantees import FidelityCertificate, distill
    from pacsent.storage import check_place, save

    if (vectors is None) == (encoder is None):
        raise click.UsageError("Give the teacher by --vectors or by --encoder, one of them.")
    check_place(output, [texts, vectors], overwrite=overwrite)
    read = list(read_texts(texts, options))
    teacher = encoder
    if vectors is not None:
        try:
            teacher = np.load(vectors, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(
                f"--vectors must be a .npy file of numbers. Got {vectors} instead ({error}). Write "
                "it with numpy.save."
            ) from None
    student = distill(teacher, read, verbose=not options.pop("quiet"), **options)
    save(student, output, overwrite=overwrite)
    words = student.word_vectors
    if note := words.training.get("normalise"):
        click.echo(note, err=True)
    n_words = counted(words.n_words, "word")
    click.echo(f"wrote  {output}: {n_words}, {words.n_dims} dimensions", err=True)
    certificate = FidelityCertificate.from_json(student.certificate_)
    show({"model": output, "certificate": certificate.to_dict()}, str(certificate), as_json)


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("directory", type=PATH)
@method_option("SIF-sum")
@overwrite_option
@json_option
def export(model, directory, method, overwrite, as_json):
    """Write MODEL for sentence-transformers or model2vec.

    For methods that are the mean of one row for each word: SIF-sum, SIF, uSIF, both, Average.
    Example: pacsent export english folder
    """
    from pacsent.encoders.export import export as write
    from pacsent.encoders.methods import DEFAULT

    vectorizer = open_vectorizer(model, method, default=DEFAULT)
    write(vectorizer, directory, overwrite=overwrite)
    click.echo(f"wrote  {directory}: for sentence-transformers", err=True)
    if as_json:
        about = {"model": model, "method": vectorizer.method_name, "directory": directory}
        echo_json(about)


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("repo")
@option("--message", "Message of the commit.")
@flag("--private", "Make a new repository private.")
@json_option
def push(model, repo, message, private, as_json):
    """Upload MODEL to the Hugging Face hub as OWNER/NAME.

    It is opened as hf://owner/name. Needs the extra `hub`; log in with: hf auth login
    """
    from pacsent.storage import load
    from pacsent.storage.sharing import push_to_hub

    address = push_to_hub(load(model), repo, message=message, private=private or None)
    show({"model": model, "repo": repo, "commit": address}, address, as_json)
