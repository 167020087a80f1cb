"""The continuation certificate: one loss per document, corrections, provenance, wording."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from helpers import invoke
from pacsent import Corpus, SkipGram, WordVectors, certify_encoder, load, make_encoder, save
from pacsent.bounds.means import betting
from pacsent.bounds.rounding import percent
from pacsent.certify import read_certificate
from pacsent.paper import (
    certify_documents,
    certify_squared_loss,
    certify_words,
    continuation,
    simulation,
)
from pacsent.paper.encoder_certificate import CertifyOptions, prepare
from pacsent.storage.tensor_files import unpack_losses
from pacsent.text.encoded import Encoded


def measure(encoder, texts, **options):
    """The certificate, and what was measured."""
    return continuation.measure(prepare(encoder, texts, CertifyOptions(**options)))


@pytest.fixture(scope="module")
def vectorizer(language):
    return make_encoder("PB-L2", language.words, n_jobs=1)


@pytest.fixture(scope="module")
def case(vectorizer, documents):
    """The certificate of all documents, and what was measured."""
    return measure(vectorizer, documents, test_size=0.2, random_state=3)


class TestMeasuring:
    def test_documents_are_read_to_80_percent(self, case, documents):
        _, measured = case
        certified_documents = documents.take(measured.rows)
        n = np.diff(certified_documents.offsets)

        head, tail = continuation.cut(certified_documents)

        both_parts = np.concatenate([head.take([4]).ids, tail.take([4]).ids])
        assert_array_equal(np.diff(head.offsets), np.clip(np.floor(0.8 * n), 1, n - 1))
        assert_array_equal(both_parts, certified_documents.take([4]).ids)

    def test_the_losses_are_those_of_the_rule_by_hand(self, case, documents, language):
        """Every score is computed one by one."""
        _, measured = case
        rule = measured.rule
        head, tail = continuation.cut(documents.take(measured.rows))
        means = make_encoder("PB-L2", language.words).fit([]).transform(head)
        vectors = rule.scale * means + rule.shift
        table = language.words.input_vectors.astype(float)

        for s in range(0, 40, 7):
            following = tail.ids[tail.offsets[s] : tail.offsets[s + 1]]
            missed = np.mean(table[following] @ vectors[s] + rule.bias <= 0)
            exact_noise = rule.p_noise @ (table @ vectors[s] + rule.bias >= 0)
            # 256 negatives: five standard deviations of the drawn fraction
            spread = 5 * np.sqrt(exact_noise * (1 - exact_noise) / 256) + 1e-3
            loss = 0.5 * (missed + exact_noise)
            assert abs(measured.losses[s] - loss) <= 0.5 * spread

    def test_the_bound_is_that_of_the_losses(self, case):
        certificate, measured = case

        losses = unpack_losses(certificate.losses)

        assert (losses >= measured.losses - 1e-12).all()
        assert (losses - measured.losses).max() <= 1 / 65_535
        assert certificate.error_upper == betting(losses, 0.05)
        assert certificate.n == losses.size == measured.rows.size

    def test_every_document_has_one_use(self, documents, case):
        _, measured = case

        together = np.concatenate([measured.rows, measured.aside, measured.fresh])

        assert sorted(together) == list(range(documents.n_sentences))

    def test_the_rule_does_not_depend_on_the_certified_documents(self, vectorizer, documents, case):
        _, measured = case
        ids = documents.ids.copy()
        for row in measured.rows:
            start = documents.offsets[row]
            end = documents.offsets[row + 1]
            ids[start:end] = ids[start:end][::-1]
        changed = documents._replace(ids=ids)

        _, measured_again = measure(vectorizer, changed, test_size=0.2, random_state=3)

        assert measured_again.rule.scale == measured.rule.scale
        assert_array_equal(measured_again.rule.shift, measured.rule.shift)
        assert not np.array_equal(measured_again.losses, measured.losses)

    def test_the_baseline_is_what_is_left_without_the_document(self, case, vectorizer, documents):
        """Words drawn from all documents: the vector knows nothing, the rule which are frequent."""
        certificate, _ = case
        few_words = documents.ids % 5
        shuffled = documents._replace(ids=np.random.default_rng(0).permutation(few_words))

        of_shuffled = certify_encoder(vectorizer, shuffled, random_state=0)

        assert certificate.empirical_risk < certificate.shuffled_risk - 0.05
        assert of_shuffled.shuffled_risk < of_shuffled.error_upper < certificate.error_upper
        assert abs(of_shuffled.empirical_risk - of_shuffled.shuffled_risk) < 0.01

    def test_a_method_that_learns_is_fitted_on_documents_set_aside(self, language, documents):
        encoder = make_encoder("PB-IDF-L2", language.words)

        certificate, measured = measure(encoder, documents, random_state=0)

        aside = documents.take(measured.aside)
        fitted = make_encoder("PB-IDF-L2", language.words).fit(aside)
        assert measured.rule.encoder.n_sentences_ != documents.n_sentences
        assert_array_equal(measured.rule.encoder.idf_, fitted.idf_)
        assert certificate.verify()


class TestChoices:
    def test_candidates_tried_elsewhere_are_corrected_for(self, vectorizer, documents):
        alone = certify_encoder(vectorizer, documents, random_state=0)

        chosen = certify_encoder(vectorizer, documents, random_state=0, n_candidates=100)

        assert chosen.error_upper == betting(unpack_losses(chosen.losses), 0.05 / 100)
        assert chosen.error_upper > alone.error_upper
        assert chosen.verify()
        assert "a union bound over 100 alternatives (100 candidates)" in str(chosen)

    def test_a_bound_without_its_correction_is_refused(self, vectorizer, documents):
        alone = certify_encoder(vectorizer, documents, random_state=0)
        chosen = certify_encoder(vectorizer, documents, random_state=0, n_candidates=100)
        uncorrected = dataclasses.replace(chosen, error_upper=alone.error_upper)

        with pytest.raises(ValueError, match=r"error_upper must be .* computed from its parts"):
            uncorrected.verify()

    @pytest.mark.slow
    def test_the_best_of_many_seeds_needs_a_union_bound(self):
        """Of thirty rules, all with risk 0.4, the one whose losses are best; forty times.

        With delta = 0.05 two bounds in forty are false on average, or fewer: more than six with
        probability 0.004 at most, more than eight with 0.0002.
        """
        rng = np.random.default_rng(0)
        n_false = 0
        n_false_uncorrected = 0

        for _ in range(40):
            losses = (rng.random((30, 100)) < 0.4).astype(float)
            best = losses[losses.mean(axis=1).argmin()]
            n_false += betting(best, 0.05 / 30) < 0.4
            n_false_uncorrected += betting(best, 0.05) < 0.4

        assert n_false <= 6
        assert n_false_uncorrected > 8


class Colours:
    """Vectors of colours, the texts that they were trained on, and other texts."""

    def __init__(self):
        rng = np.random.default_rng(99)
        names = ["red", "blue", "green", "sea", "sky"]
        texts = [" ".join(rng.choice(names, 30)) for _ in range(120)]
        self.texts = texts[:60]
        self.other_texts = texts[60:]
        self.vectors = self.train(self.texts)

    def train(self, texts):
        model = SkipGram(n_dims=4, min_count=1, n_epochs=1, n_jobs=1, random_state=0)
        return model.fit(texts).word_vectors_


@pytest.fixture(scope="module")
def colours():
    return Colours()


@pytest.fixture
def imported_folder(colours, tmp_path):
    """A folder of vectors that do not know what they were trained on."""
    vectors = colours.vectors
    imported = WordVectors(vectors.vocabulary, vectors.input_vectors, vectors.output_vectors)
    return save(imported, tmp_path / "imported")


class TestProvenance:
    def test_passages_of_the_training_text_are_refused_or_left_out(self, colours):
        encoder = make_encoder("PB-L2", colours.vectors)
        texts = list(colours.other_texts)
        texts[40] = f"{texts[40][:40]} {colours.texts[7]}"

        with pytest.raises(ValueError, match=r"1 of the 60 documents .*document 40"):
            certify_encoder(encoder, texts)

        certificate = certify_encoder(encoder, texts, overlap="drop")
        assert certificate.n_overlapping == 1
        assert "Omitted, as in the training text: 1." in certificate.details()

    def test_convert_records_what_imported_vectors_were_trained_on(
        self, colours, imported_folder, tmp_path
    ):
        options = []
        for name, texts in (("a.txt", colours.texts[:30]), ("b.txt", colours.texts[30:])):
            (tmp_path / name).write_text("\n".join(texts) + "\n")
            options += ["--trained-on", tmp_path / name]

        invoke("model", "convert", imported_folder, tmp_path / "converted", *options, status=0)

        encoder = make_encoder("PB-L2", load(tmp_path / "converted"))
        with pytest.raises(ValueError, match="were trained on 60 of the 60 documents"):
            certify_encoder(encoder, colours.texts[::-1])
        certificate = certify_encoder(encoder, colours.other_texts)
        assert certificate.provenance == "checked"
        assert "Provenance: checked" in certificate.details()

    def test_only_a_folder_records_what_vectors_were_trained_on(
        self, colours, imported_folder, tmp_path
    ):
        path = tmp_path / "a.txt"
        path.write_text("\n".join(colours.texts))

        done = invoke("model", "convert", imported_folder, tmp_path / "v.txt", "--trained-on", path)

        assert done.exit_code == 2
        assert "Only pacsent's own folder keeps" in done.output

    def test_a_corpus_on_disk_leaves_the_same_fingerprint(self, colours, tmp_path):
        corpus = Corpus.build(colours.texts, tmp_path / "corpus", min_count=1)

        of_corpus = colours.train(corpus).fingerprint

        of_texts = colours.vectors.fingerprint
        assert_array_equal(of_corpus.documents, of_texts.documents)
        assert_array_equal(of_corpus.runs, of_texts.runs)


class TestDuplicatesAndRefusals:
    def test_a_thousand_copies_count_once(self, vectorizer, documents):
        """One document is one example, however often it is given."""
        copies = documents.take(np.zeros(1000, dtype=int))

        certificate = certify_encoder(vectorizer, copies, random_state=0, split=0.0)

        assert (certificate.n, certificate.n_duplicates) == (1, 999)
        assert certificate.error_upper > 0.5
        assert certificate.verify(copies, vectorizer)
        for part in ("No guarantee: ", "are too few", "Duplicates: 999 not counted."):
            assert part in str(certificate)

    @pytest.mark.parametrize("kind", [certify_encoder, certify_words])
    def test_nan_in_a_word_that_no_document_holds_is_refused(self, language, kind):
        """Its score is neither noise nor not: a loss of nothing, or a bound of NaN."""
        texts, _ = language.draw(np.random.default_rng(0), np.tile(np.arange(60), 3))
        row = np.setdiff1d(np.arange(language.words.n_words), texts.ids)[0]
        table = np.array(language.words.input_vectors)
        table[row] = np.nan

        with pytest.raises(ValueError, match=f"Got NaN or infinity in row {row}"):
            vectors = language.words.replace(input_vectors=table)
            kind(make_encoder("PB-L2", vectors), texts)

    def test_texts_of_unknown_words_are_refused(self, vectorizer, documents):
        unknown = documents._replace(n_unknown=3 * np.diff(documents.offsets))

        with pytest.raises(ValueError, match=r"at least 50% of their words .* Got 25% instead"):
            certify_encoder(vectorizer, unknown)

    def test_kind_b_of_sentences_is_refused(self, vectorizer, documents):
        with pytest.raises(ValueError, match=r"Got PB-L2 instead.*--method w-PB-neg"):
            certify_documents(vectorizer, documents)

    def test_kind_b_of_the_prior_is_certified(self, vectorizer, documents):
        certificate = certify_documents(vectorizer, documents, posterior="prior", test_size=0.2)

        assert certificate.posterior == "prior"
        assert "further documents the risk" in certificate.details()

    @pytest.mark.parametrize("kind", [certify_encoder, certify_words, certify_squared_loss])
    def test_copies_change_nothing(self, vectorizer, documents, kind):
        rows = np.concatenate([np.arange(600), np.arange(0, 600, 2)])
        once = kind(vectorizer, documents, random_state=0)

        twice = kind(vectorizer, documents.take(rows), random_state=0)

        assert twice.n_duplicates == 300
        assert twice.n == once.n
        assert twice.error_upper == once.error_upper
        assert "Provenance: unknown" in str(twice)

    def test_other_case_and_unknown_words_make_no_other_text(self, toy_word_vectors):
        encoder = make_encoder("Average", toy_word_vectors)
        texts = ["good film", "Good film!", "good xyzzy film", "film good", "good"]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certificate = certify_encoder(encoder, texts, split=0.0, random_state=0)

        assert certificate.n_duplicates == 2
        assert certificate.n == 2
        assert certificate.n_left_out == 1


class TestVerify:
    def test_the_parts_are_recomputed_from_text_and_vectorizer(self, case, vectorizer, documents):
        certificate, _ = case

        assert certificate.verify(documents, vectorizer)

    def test_other_texts_are_refused(self, case, vectorizer, documents):
        certificate, _ = case

        with pytest.raises(ValueError, match="text_digest must be"):
            certificate.verify(documents.take(np.arange(599)), vectorizer)

    def test_another_vectorizer_is_refused(self, case, vectorizer, documents):
        certificate, _ = case
        other = make_encoder("PB-L2", vectorizer.word_vectors, lam=3.0)

        with pytest.raises(ValueError, match=r"encoder must be .*Got .* instead"):
            certificate.verify(documents, other)

    def test_texts_without_a_vectorizer_are_refused(self, case, documents):
        certificate, _ = case

        with pytest.raises(ValueError, match="must be given together"):
            certificate.verify(documents)

    def test_the_first_sentence_says_what_is_guaranteed_and_what_guessing_gives(self, case):
        certificate, _ = case
        bound = percent(certificate.error_upper)
        baseline = percent(certificate.shuffled_risk)

        assert str(certificate).startswith(
            "No measure of quality: other texts and other vectors have other baselines. Given the "
            "first 80% of a new, similar document, its vector tells words from the rest of that "
            "document apart from random words. With 95% confidence the average error is at most "
            f"{bound} (guessing: 50%; these documents with their words shuffled among them: "
            f"{baseline})."
        )

    def test_details_state_the_noise_the_test_and_the_seed(self, case):
        details = case[0].details()

        for part in (
            "their count in the training text of the vectors, to the power 0.75",
            "on 120 further documents the risk is",
            "seed is 3",
        ):
            assert part in details

    def test_a_seed_that_is_not_given_is_drawn_and_recorded(self, vectorizer, documents):
        first = certify_encoder(vectorizer, documents)
        second = certify_encoder(vectorizer, documents)

        assert first.random_state != second.random_state

    def test_a_forged_provenance_is_refused_with_the_texts(self, case, vectorizer, documents):
        forged = dataclasses.replace(case[0], provenance="checked")

        assert forged.verify()  # it is not impossible by itself
        with pytest.raises(ValueError, match="provenance must be"):
            forged.verify(documents, vectorizer)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"n": 3}, "n must be 300, the number of losses"),
            ({"losses": None}, "losses must be of type str"),
            ({"corrections": []}, "corrections must be of type dict"),
            ({"n": 1.5}, "n must be of type int"),
            ({"losses": "%%%"}, "losses must be what certify recorded"),
            ({"options": {"overlap": "x"}}, "options must be those of certify. overlap must be"),
            ({"options": {"bias": float("nan")}}, "options must be those of certify. bias must"),
            ({"provenance": "surely"}, "provenance must be 'checked' or 'unknown'"),
        ],
    )
    def test_what_cannot_be_is_refused(self, case, change, message):
        certificate, _ = case

        with pytest.raises(ValueError, match=message):
            dataclasses.replace(certificate, **change).verify()


class TestGuarantee:
    @pytest.mark.slow
    @pytest.mark.parametrize("setting", simulation.SETTINGS)
    def test_it_holds(self, setting):
        coverage = simulation.simulate("continuation", setting, 15, random_state=0)
        assert coverage.n_violations <= 3  # one in 180 runs would exceed that
        assert 0 < coverage.mean_gap < 0.05

    @pytest.mark.slow
    def test_where_words_come_in_bursts_and_topics_drift_kind_a_fails(self):
        assert simulation.simulate("A", "drift", 10, random_state=0).n_violations >= 8

    @pytest.mark.slow
    def test_calibrating_on_certified_documents_is_noticed(self, monkeypatch):
        """A mutation: the rule is fitted on what is certified."""
        # Few documents are learned by heart.
        monkeypatch.setattr(simulation._Continuing.__init__, "__defaults__", (1000, 30))
        honest = simulation.simulate("continuation", "memorising", 20, random_state=0)
        divide = continuation.divided

        def divide_and_leak(*arguments, **options):
            _, fresh, certified = divide(*arguments, **options)
            return certified, fresh, certified

        monkeypatch.setattr(continuation, "divided", divide_and_leak)
        leaky = simulation.simulate("continuation", "memorising", 20, random_state=0)

        assert leaky.mean_gap < honest.mean_gap - 0.01


class ShellFiles:
    """Word vectors, texts that they were not trained on, and their certificate, as files."""

    def __init__(self, folder):
        rng = np.random.default_rng(1)
        topics = [["red", "blue", "green"], ["sea", "sky", "sun"]]
        lines = [" ".join(rng.choice(topics[row % 2], 20)) for row in range(120)]
        model = SkipGram(n_dims=4, min_count=1, n_epochs=2, n_jobs=1, random_state=0)
        self.words = save(model.fit(lines[:60]).word_vectors_, folder / "words")
        self.text = folder / "text.txt"
        self.text.write_text("\n".join(lines[60:]) + "\n")
        self.certificate = folder / "c.json"

    def certify(self, *options):
        return invoke("paper", "continuation", self.words, self.text, "--quiet", *options, status=0)


@pytest.fixture(scope="module")
def shell_files(tmp_path_factory):
    return ShellFiles(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def written(shell_files):
    """What `certify` printed when it wrote the certificate."""
    return shell_files.certify("-o", shell_files.certificate)


def test_certify_writes_a_certificate(shell_files, written):
    assert shell_files.certificate.exists()
    assert "Provenance: checked" not in written.output


def test_certify_prints_a_certificate_of_another_kind_and_method(shell_files):
    done = shell_files.certify("--method", "PB-IDF-L2", "--kind", "A", "--json")

    assert "IDFVectorizer" in done.stdout
    assert read_certificate(done.stdout)


def test_verify_reads_a_certificate_alone(shell_files, written):
    done = invoke("verify", shell_files.certificate, status=0)

    assert "the bound follows from its parts" in done.output


def test_verify_reads_a_certificate_with_texts_and_model(shell_files, written):
    files = shell_files

    done = invoke("verify", files.certificate, files.text, files.words, "--json")

    assert json.loads(done.stdout)["verified"]


def test_verify_needs_texts_and_model_or_neither(shell_files, written):
    done = invoke("verify", shell_files.certificate, shell_files.text)

    assert done.exit_code == 2
    assert "Give TEXTS and MODEL, or neither" in done.output


def test_the_calibration_ends_at_its_minimum_whatever_the_length_of_vectors():
    """Whole Newton steps swing between saturated ends where vectors are long."""
    rng = np.random.default_rng(0)
    A_hat = 3 * rng.normal(size=(300, 6)).astype(np.float32)
    topics = rng.normal(size=(150, 6))
    chances = np.exp(topics @ A_hat.T / 3)
    words = [rng.choice(300, 30, p=row / row.sum()) for row in chances]
    ids = np.concatenate(words).astype(np.int32)
    tokens = Encoded(ids, np.arange(151) * 30, np.zeros(150, np.int64))
    p_noise = np.full(300, 1 / 300)

    ends = []
    for length in (0.1, 1.0, 10.0):
        scale, shift = continuation.calibrate(
            length * topics, tokens, A_hat, p_noise, 2.7, np.random.default_rng(0)
        )
        ends.append([length * scale, *shift])

    np.testing.assert_allclose(ends[1:], [ends[0], ends[0]], atol=2e-3)
