"""The command distill."""

import click

from pacsent.cli.command_line import (
    FILE,
    NON_NEGATIVE,
    PATH,
    POSITIVE,
    cli,
    delta_option,
    device_option,
    option,
    output_options,
)
from pacsent.cli.printing import counted, show
from pacsent.cli.text_inputs import TextsPath, read_texts, text_options


@cli.command()
@click.argument("texts", type=TextsPath())
@option("-o --output", "Folder of the student.", PATH, required=True)
@option(
    "--vectors",
    "The teacher's vectors of TEXTS: a .npy file with one row per text.",
    FILE,
    metavar="FILE",
)
@option(
    "--encoder",
    "The teacher: a model of pacsent or sentence-transformers, or a server with OpenAI's "
    "embeddings interface.",
    metavar="PATH|URL",
)
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
def distill(texts, output, vectors, encoder, text_column, input_format, **how):
    """Distil an encoder into a static model on TEXTS.

    The teacher is an encoder, or only its vectors of TEXTS. A tenth of the texts is held out; the
    guarantee on the cosines to the teacher is measured on them, printed, and saved with the model.
    """
    import numpy as np

    from pacsent.guarantees import FidelityCertificate, distill
    from pacsent.storage import check_place, save

    overwrite, as_json, quiet = (how.pop(name) for name in ("overwrite", "as_json", "quiet"))
    if (vectors is None) == (encoder is None):
        raise click.UsageError("Give the teacher by --vectors or by --encoder, one of them.")
    check_place(output, [texts, vectors], overwrite=overwrite)
    given = list(read_texts(texts, text_column, input_format, quiet))
    teacher = encoder
    if vectors is not None:
        try:
            teacher = np.load(vectors, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(
                f"--vectors must be a .npy file of numbers. Got {vectors} instead ({error}). Write "
                "it with numpy.save."
            ) from None
    device = how.pop("device") or "cpu"
    student = distill(teacher, given, device=device, verbose=not quiet, **how)
    save(student, output, overwrite=overwrite)
    if note := student.word_vectors.training.get("normalise"):
        click.echo(note, err=True)
    n_words = counted(student.word_vectors.n_words, "word")
    click.echo(f"wrote  {output}: {n_words}, {student.word_vectors.n_dims} dimensions", err=True)
    certificate = FidelityCertificate.from_json(student.certificate_)
    show({"model": output, "certificate": certificate.to_dict()}, str(certificate), as_json)
