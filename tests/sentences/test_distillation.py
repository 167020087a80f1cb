"""Distillation: static copies of an encoder, and the certificate of how close they are."""

import dataclasses
import json
import zlib
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from helpers import invoke
from pacsent import Index, distill, load, save
from pacsent.arrays import unit_rows
from pacsent.certify import read_certificate
from pacsent.sentences import FidelityCertificate, StaticEncoder
from pacsent.sentences.distillation_certificate import measure_fidelity
from pacsent.sentences.solvers.distillation import Refinement, SolverOptions, batch_loss, fit_table
from pacsent.text.encoded import Encoded
from pacsent.web import ModelSource, open_models

N_DIMS = 12
NOUNS = ["house", "river", "train", "song", "garden", "letter", "window", "bridge", "engine"]
KINDS = ["red", "green", "small", "large", "quiet", "fast", "old", "bright", "heavy", "narrow"]
VERBS = ["sees", "builds", "finds", "leaves", "paints"]
ROWS = np.arange(60)[:, None]


def certificate_of(student):
    return read_certificate(student.certificate_)


def teacher(texts):
    """Not linear in the words: the length of the text bends the sum of fixed random vectors."""
    rows = []
    for text in texts:
        seeds = [zlib.crc32(word.encode()) for word in text.split()] or [0]
        x = sum(np.random.default_rng(seed).normal(size=N_DIMS) for seed in seeds)
        rows.append(np.tanh(x / np.sqrt(len(seeds))) + 0.1)
    return np.array(rows)


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    parts = (KINDS, NOUNS, VERBS, KINDS, NOUNS)
    return list(dict.fromkeys(" ".join(rng.choice(part) for part in parts) for _ in range(900)))


@pytest.fixture(scope="module")
def student(texts):
    return distill(teacher, texts, n_subwords=30, random_state=0)


def encoded(rng, n=40, n_words=15):
    sizes = rng.integers(1, 7, n)
    ids = rng.integers(0, n_words, sizes.sum()).astype(np.int32)
    return Encoded(ids, np.concatenate([[0], np.cumsum(sizes)]), np.zeros(n, np.int64))


def test_conjugate_gradients_end_at_the_exact_posterior_mean(rng):
    n_words = 15
    batch = encoded(rng, n_words=n_words)
    t = rng.normal(size=(40, 4))
    prior = rng.normal(size=(n_words, 4))

    table, variances = fit_table(batch, t, prior, SolverOptions(ridge=2.0, n_iterations=60))

    A = np.zeros((40, n_words))
    precisions = np.full(n_words, 2.0)
    for s in range(40):
        words = batch.ids[batch.offsets[s] : batch.offsets[s + 1]]
        np.add.at(A[s], words, 1 / np.sqrt(len(words)))
        np.add.at(precisions, words, 1 / len(words))
    unit = t / np.linalg.norm(t, axis=1, keepdims=True)
    exact = np.linalg.solve(A.T @ A + 2 * np.eye(n_words), A.T @ unit + 2 * prior)
    squared_error = ((A @ exact - unit) ** 2).mean()
    assert_allclose(table, exact, atol=1e-8)
    assert_allclose(variances, squared_error / precisions, rtol=1e-6)


def test_the_gradient_of_a_batch_is_the_numerical_one(rng):
    x, t = rng.normal(size=(2, 6, 3))
    t /= np.linalg.norm(t, axis=1, keepdims=True)

    _, gradient = batch_loss(x, t, 7.0)

    numerical = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        loss_after, _ = batch_loss(x + step, t, 7.0)
        loss_before, _ = batch_loss(x - step, t, 7.0)
        numerical[place] = (loss_after - loss_before) / 2e-6
    assert_allclose(gradient, numerical, atol=1e-7)


@pytest.mark.extra(needs="torch")
def test_an_epoch_with_torch_is_the_epoch_on_the_cpu(rng):
    pytest.importorskip("torch")
    from pacsent.sentences.solvers.distillation_gpu import epoch_on_gpu

    batch = encoded(rng)
    t = rng.normal(size=(40, 4)).astype(np.float32)
    start = rng.normal(size=(15, 4)).astype(np.float32)
    options = SolverOptions(n_epochs=2, batch_size=10, rate=0.05)
    one, two = (Refinement(start.copy(), 40, options) for _ in range(2))
    for _ in range(2):
        one.run_epoch(batch, t, lambda n: None)
        epoch_on_gpu(two, batch, t, lambda n: None, "cpu")
    assert_allclose(one.table, two.table, atol=2e-4)
    assert np.abs(one.table - start).max() > 0.003


def test_a_student_points_where_its_teacher_points(student, texts):
    teacher_vectors = teacher(texts)

    vectors = student.encode(texts)

    cosines = (vectors * teacher_vectors).sum(1) / np.linalg.norm(teacher_vectors, axis=1)
    assert cosines.mean() > 0.93
    assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert certificate_of(student).cosine_lower < cosines.mean()


def test_a_student_reads_unknown_words_by_their_subwords(texts):
    rare_words = [f"{noun}ish" for noun in NOUNS[:3]]
    longer_texts = [" ".join(pair) for pair in product(texts[:90], rare_words)]
    student = distill(teacher, texts + longer_texts, n_words=21, n_subwords=40, n_epochs=1)

    vectors, variances = student.posterior(["gardenish", "house"])

    assert np.isfinite(vectors).all()
    assert np.isfinite(variances).all()
    assert "##ish" in student.word_vectors.words


def test_the_same_call_gives_the_same_student(student, texts):
    second = distill(teacher, texts, n_subwords=30, random_state=0)

    assert (second.word_vectors.input_vectors == student.word_vectors.input_vectors).all()
    assert second.certificate_ == student.certificate_


def test_vectors_without_their_encoder_are_enough(texts):
    vectors = teacher(texts).astype(np.float32)

    student = distill(vectors, texts, n_subwords=30, random_state=0)

    certificate = certificate_of(student)
    assert certificate.mean_cosine > 0.9
    assert certificate.teacher == "stored vectors"


@pytest.fixture
def interrupted(tmp_path, texts, monkeypatch):
    """The folder of a distillation that was interrupted in its second epoch."""
    run_epoch = Refinement.run_epoch

    def run_one_epoch(self, *arguments):
        if self.epoch == 1:
            raise KeyboardInterrupt
        return run_epoch(self, *arguments)

    folder = tmp_path / "kept"
    with monkeypatch.context() as patch:
        patch.setattr(Refinement, "run_epoch", run_one_epoch)
        with pytest.raises(KeyboardInterrupt):
            distill(teacher, texts, n_subwords=30, checkpoint_dir=folder, random_state=0)
    return folder


def test_distillation_resumes_to_the_same_student(interrupted, texts, student):
    result = distill(teacher, texts, n_subwords=30, checkpoint_dir=interrupted, random_state=0)

    vectors = result.word_vectors.input_vectors
    assert (vectors == student.word_vectors.input_vectors).all()
    assert not interrupted.exists()


@pytest.mark.parametrize(
    ("random_state", "message"),
    [
        (1, "a folder of the same distillation"),
        (None, "checkpoint_dir needs an int as random_state"),
    ],
)
def test_another_distillation_does_not_resume(interrupted, texts, random_state, message):
    with pytest.raises(ValueError, match=message):
        distill(
            teacher, texts, n_subwords=30, checkpoint_dir=interrupted, random_state=random_state
        )


def test_a_student_is_saved_with_its_certificate(student, texts, tmp_path):
    opened = load(save(student, tmp_path / "model"))

    assert isinstance(opened, StaticEncoder)
    assert opened.certificate_ == student.certificate_
    assert (opened.encode(texts) == student.encode(texts)).all()
    _, variances = student.posterior(texts[:9])
    _, opened_variances = opened.posterior(texts[:9])
    assert_allclose(opened_variances, variances, rtol=1e-5)


def test_an_index_searches_with_a_student(student, texts, tmp_path):
    index = Index(student)
    index.add(texts[:200])
    opened = load(save(index, tmp_path / "index"))

    [hit] = index.search(texts[7], k=1)
    [hit_of_opened] = opened.search(texts[7], k=1)

    assert hit.text == texts[7]
    assert hit_of_opened.text == texts[7]


def test_a_text_is_similar_to_itself(student, texts):
    similarities = student.similarity([texts[0]], [texts[0]])

    assert similarities[0, 0] == pytest.approx(1, abs=1e-5)


def test_a_student_is_served_with_its_certificate(student, tmp_path):
    [served] = open_models([ModelSource(str(save(student, tmp_path / "student")))])

    [described] = served.describe_certificates()
    assert described["about"] == "encoder"
    assert described["certificate"] == json.loads(student.certificate_)


def test_a_compressed_student_keeps_the_cosines(student, texts):
    small = student.compress(bits=8)

    assert small.certificate_ is None
    similarities = student.similarity(texts[:30], texts[30:60])
    small_similarities = small.similarity(texts[:30], texts[30:60])
    assert_allclose(small_similarities, similarities, atol=0.05)


def test_a_student_of_fewer_dimensions_is_saved(student, texts, tmp_path):
    small = student.compress(n_dims=10)

    opened = load(save(small, tmp_path / "small"))

    assert opened.encode(texts[:2]).shape == (2, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v[:-1], "one row for each of the 60 texts. Got 59 rows"),
        (lambda v: v[:, 0], r"floats of shape \(n_texts, n_dims\). Got float64 of shape \(60,\)"),
        (lambda v: v.astype(int), "Got int64"),
        (lambda v: np.where(ROWS == 7, np.nan, v), r"nan or infinity in 1 .*row 7"),
        (lambda v: np.where(ROWS > 57, 0, v), r"zeros in 2 of 60 rows .*row 58"),
    ],
)  # fmt: skip
def test_vectors_that_are_none_are_refused_by_row(texts, change, message):
    with pytest.raises(ValueError, match=message):
        distill(change(teacher(texts[:60])), texts[:60])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_words": 0}, "n_words must be an integer of at least 1"),
        ({"n_epochs": -1}, "n_epochs must be an integer of at least 0"),
        ({"delta": 1}, "delta must be strictly between"),
        ({"test_size": 1.5}, "test_size must be strictly between"),
        ({"device": "tpu"}, "device must be 'cpu', 'cuda'"),
        ({"texts": ["a b"] * 3}, "texts must be at least 10"),
        ({"texts": ["!" * n for n in range(1, 41)]}, "texts must have words that occur twice"),
        ({"texts": ["a b"] * 40}, "test_size must leave different texts"),
    ],
)
def test_wrong_options_are_refused(texts, how, message):
    with pytest.raises(ValueError, match=message):
        distill(teacher, **{"texts": texts[:60], **how})


@pytest.fixture(scope="module")
def certificate(texts):
    """The certificate of a student of 200 texts and 50 copies."""
    return certificate_of(distill(teacher, texts[:200] + texts[:50], n_epochs=0))


def test_copies_are_used_once(certificate):
    assert certificate.n_duplicates == 50
    assert certificate.n == 20


def test_the_certificate_is_verified_and_read_again(certificate):
    opened = read_certificate(certificate.to_json())

    assert certificate.verify()
    assert isinstance(opened, FidelityCertificate)
    assert opened == certificate


@pytest.mark.parametrize(("name", "value"), [("error_upper", 0.0), ("n", 3)])
def test_a_changed_certificate_is_not_verified(certificate, name, value):
    changed = dataclasses.replace(certificate, **{name: value})

    with pytest.raises(ValueError, match=name):
        changed.verify()


def test_the_certificate_states_the_average_cosine(certificate):
    assert "average cosine to the teacher is at least 0." in certificate.summary()


def test_the_cosine_depends_on_directions_alone():
    rows = np.eye(11)

    same = measure_fidelity(rows, 3 * rows)
    opposite = measure_fidelity(rows, -rows)

    assert same.mean_cosine == 1
    assert opposite.mean_cosine == -1
    assert opposite.cosine_lower == -1


def draw_pairs(rng, n):
    """Vectors and what they are copies of, with noise that is sometimes large."""
    originals = rng.normal(size=(n, 6))
    scale = rng.choice([0.2, 2.5], size=(n, 1), p=[0.8, 0.2])
    copies = originals + scale * rng.normal(size=(n, 6))
    return copies, originals


def test_the_certificate_keeps_its_guarantee_and_the_plain_mean_does_not(rng):
    """200 samples from a known distribution."""
    copies, originals = draw_pairs(rng, 200_000)
    true_cosine = (unit_rows(copies) * unit_rows(originals)).sum(axis=1).mean()

    certificates = [measure_fidelity(*draw_pairs(rng, 80), delta=0.2) for _ in range(200)]

    lower_limits = np.array([certificate.cosine_lower for certificate in certificates])
    means = np.array([certificate.mean_cosine for certificate in certificates])
    assert np.mean(lower_limits > true_cosine) <= 0.2 + 0.06
    assert np.mean(means > true_cosine) > 0.3


@pytest.fixture
def run_distill(tmp_path, texts):
    """run_distill(*options): the command on the texts, which writes to tmp_path / "m"."""
    file = tmp_path / "t.txt"
    file.write_text("\n".join(texts) + "\n")

    def run(*options):
        settings = ["-o", tmp_path / "m", "--n-subwords", 20, "--quiet", "--json"]
        return invoke("distill", file, *settings, *options)

    return run


def test_the_command_distils_from_vectors_alone(run_distill, tmp_path, texts):
    vectors = teacher(texts).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)

    done = run_distill("--vectors", tmp_path / "v.npy")

    assert done.exit_code == 0, done.output
    certificate = json.loads(done.stdout)["certificate"]
    opened = load(tmp_path / "m")
    assert certificate["kind"] == "fidelity"
    assert certificate_of(opened).error_upper == certificate["error_upper"]


def test_the_command_needs_vectors_or_an_encoder(run_distill, tmp_path):
    done = run_distill()

    assert done.exit_code == 2
    assert "--vectors or by --encoder" in done.output
    assert not (tmp_path / "m").exists()


def test_the_command_refuses_vectors_of_other_texts(run_distill, tmp_path, texts):
    vectors = teacher(texts[:59]).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)

    done = run_distill("--vectors", tmp_path / "v.npy")

    assert done.exit_code == 1
    assert "59 rows" in done.output
    assert not (tmp_path / "m").exists()


def test_the_command_refuses_vectors_that_are_no_array(run_distill, tmp_path):
    done = run_distill("--vectors", tmp_path / "t.txt")

    assert done.exit_code == 2
    assert "is no .npy file" in done.output
    assert not (tmp_path / "m").exists()


def assert_chosen(words, name):
    """The normalisation of word vectors, and that they record why."""
    assert words.vocabulary.normalize == name
    assert words.training["normalize"].startswith(f"normalize={name!r}, chosen from the text")


def test_the_normalisation_of_english_texts_is_that_of_the_paper(texts):
    student = distill(teacher, texts[:60], n_epochs=0, n_subwords=0)

    assert_chosen(student.word_vectors, "paper")


def test_the_normalisation_of_other_texts_keeps_their_letters(texts):
    german = [f"{text} grün" for text in texts[:60]]

    student = distill(teacher, german, n_epochs=0, n_subwords=0)

    assert_chosen(student.word_vectors, "unicode")
    assert "grün" in student.word_vectors.vocabulary


def test_a_normalisation_that_was_given_is_not_recorded_as_chosen(texts):
    student = distill(teacher, texts[:60], n_epochs=0, n_subwords=0, normalize="unicode")

    assert "normalize" not in student.word_vectors.training
