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


def measured_too(encoder, texts, **options):
    """The certificate, and what was measured."""
    return continuation.measure(prepare(encoder, texts, CertifyOptions(**options)))


@pytest.fixture(scope="module")
def vectorizer(language):
    return make_encoder("PB-L2", language.words, n_jobs=1)


@pytest.fixture(scope="module")
def case(vectorizer, documents):
    return measured_too(vectorizer, documents, test_size=0.2, random_state=3)


class TestMeasuring:
    def test_the_losses_are_those_of_the_rule_by_hand(self, case, documents, language):
        """Every document read to 80%, every score taken one by one."""
        _, measured = case
        rule, certified_documents = measured.rule, documents.take(measured.rows)
        head, tail = continuation.cut(certified_documents)
        n = np.diff(certified_documents.offsets)
        assert_array_equal(np.diff(head.offsets), np.clip(np.floor(0.8 * n), 1, n - 1))
        first = certified_documents.take([4]).ids
        assert_array_equal(np.concatenate([head.take([4]).ids, tail.take([4]).ids]), first)
        means = make_encoder("PB-L2", language.words).fit([]).transform(head)
        vectors = rule.scale * means + rule.shift
        table = language.words.input_vectors.astype(float)
        for s in range(0, 40, 7):
            following = tail.ids[tail.offsets[s] : tail.offsets[s + 1]]
            missed = np.mean(table[following] @ vectors[s] + rule.bias <= 0)
            exact_noise = rule.p_noise @ (table @ vectors[s] + rule.bias >= 0)
            # 256 negatives: five standard deviations of the drawn share
            spread = 5 * np.sqrt(exact_noise * (1 - exact_noise) / 256) + 1e-3
            assert abs(measured.losses[s] - 0.5 * (missed + exact_noise)) <= 0.5 * spread

    def test_the_bound_is_that_of_the_losses(self, case):
        certificate, measured = case
        kept = unpack_losses(certificate.losses)
        assert (kept >= measured.losses - 1e-12).all()
        assert (kept - measured.losses).max() <= 1 / 65_535
        assert certificate.error_upper == betting(kept, 0.05)
        assert certificate.n == kept.size == measured.rows.size

    def test_the_rule_does_not_depend_on_the_certified_documents(self, vectorizer, documents, case):
        _, measured = case
        together = np.concatenate([measured.rows, measured.aside, measured.fresh])
        assert sorted(together) == list(range(documents.n_sentences))
        changed = documents.ids.copy()
        for row in measured.rows:
            a, b = documents.offsets[row], documents.offsets[row + 1]
            changed[a:b] = changed[a:b][::-1]
        other = documents._replace(ids=changed)
        _, again = measured_too(vectorizer, other, test_size=0.2, random_state=3)
        assert again.rule.scale == measured.rule.scale
        assert_array_equal(again.rule.shift, measured.rule.shift)
        assert not np.array_equal(again.losses, measured.losses)

    def test_the_baseline_is_what_is_left_without_the_document(self, case, vectorizer, documents):
        """Words drawn from all documents: the vector knows nothing, the rule which are frequent."""
        assert case[0].empirical_risk < case[0].shuffled_risk - 0.05
        ids = np.random.default_rng(0).permutation(documents.ids % 5)  # few of the words
        mixed = certify_encoder(vectorizer, documents._replace(ids=ids), random_state=0)
        assert mixed.error_upper < case[0].error_upper and mixed.error_upper > mixed.shuffled_risk
        assert abs(mixed.empirical_risk - mixed.shuffled_risk) < 0.01

    def test_a_method_that_learns_is_fitted_on_documents_set_aside(self, language, documents):
        certificate, measured = measured_too(
            make_encoder("PB-IDF-L2", language.words), documents, random_state=0
        )
        assert measured.rule.encoder.n_sentences_ != documents.n_sentences
        aside = documents.take(measured.aside)
        fitted = make_encoder("PB-IDF-L2", language.words).fit(aside)
        assert_array_equal(measured.rule.encoder.idf_, fitted.idf_)
        assert certificate.verify()


class TestChoices:
    def test_candidates_tried_elsewhere_are_corrected_for(self, vectorizer, documents):
        alone = certify_encoder(vectorizer, documents, random_state=0)
        paid = certify_encoder(vectorizer, documents, random_state=0, n_candidates=100)
        assert paid.error_upper == betting(unpack_losses(paid.losses), 0.05 / 100)
        assert paid.error_upper > alone.error_upper and paid.verify()
        assert "a union bound over 100 alternatives (100 candidates)" in str(paid)
        unpaid = dataclasses.replace(paid, error_upper=alone.error_upper)
        with pytest.raises(ValueError, match=r"error_upper must be .* computed from its parts"):
            unpaid.verify()

    @pytest.mark.slow
    def test_the_best_of_many_seeds_needs_a_union_bound(self):
        """Thirty rules that differ by chance alone, forty times."""
        rng = np.random.default_rng(0)
        unpaid = paid = 0
        for _ in range(40):
            losses = (rng.random((30, 100)) < 0.4).astype(float)
            best = losses[losses.mean(axis=1).argmin()]
            unpaid += betting(best, 0.05) < 0.4
            paid += betting(best, 0.05 / 30) < 0.4
        assert unpaid > 8
        assert paid <= 6


@pytest.fixture(scope="module")
def colours():
    """Vectors trained on the first sixty of these texts."""
    rng = np.random.default_rng(99)
    texts = [" ".join(rng.choice(["red", "blue", "green", "sea", "sky"], 30)) for _ in range(120)]
    model = SkipGram(n_dims=4, min_count=1, n_epochs=1, n_jobs=1, random_state=0)
    return model.fit(texts[:60]).word_vectors_, texts[:60], texts[60:]


class TestProvenance:
    def test_passages_of_the_training_text_are_refused_or_left_out(self, colours):
        words, seen, others = colours
        mixed = [*others[:40], others[40][:40] + " " + seen[7], *others[41:]]
        with pytest.raises(ValueError, match=r"1 of the 60 documents .*document 40"):
            certify_encoder(make_encoder("PB-L2", words), mixed)
        certificate = certify_encoder(make_encoder("PB-L2", words), mixed, overlap="drop")
        assert certificate.n_overlapping == 1
        assert "Omitted, as in the training text: 1." in certificate.details()

    def test_convert_tells_imported_vectors_what_they_saw(self, colours, tmp_path):
        words, seen, others = colours
        foreign = WordVectors(words.vocabulary, words.input_vectors, words.output_vectors)
        save(foreign, tmp_path / "foreign")
        texts = []
        for name, part in (("a.txt", seen[:30]), ("b.txt", seen[30:])):
            (tmp_path / name).write_text("\n".join(part) + "\n")
            texts += ["--trained-on", tmp_path / name]
        invoke("model", "convert", tmp_path / "foreign", tmp_path / "known", *texts, status=0)
        known = make_encoder("PB-L2", load(tmp_path / "known"))
        with pytest.raises(ValueError, match="were trained on 60 of the 60 documents"):
            certify_encoder(known, seen[::-1])
        certificate = certify_encoder(known, others)
        assert certificate.provenance == "checked"
        assert "Provenance: checked" in certificate.details()
        done = invoke("model", "convert", tmp_path / "foreign", tmp_path / "v.txt", *texts)
        assert done.exit_code == 2 and "Only pacsent's own folder keeps" in done.output

    def test_a_corpus_on_disk_leaves_the_same_fingerprint(self, colours, tmp_path):
        words, seen, _ = colours
        corpus = Corpus.build(seen, tmp_path / "corpus", min_count=1)
        again = SkipGram(n_dims=4, min_count=1, n_epochs=1, n_jobs=1, random_state=0).fit(corpus)
        ours, theirs = words.fingerprint, again.word_vectors_.fingerprint
        assert_array_equal(ours.documents, theirs.documents)
        assert_array_equal(ours.runs, theirs.runs)


class TestDuplicatesAndRefusals:
    def test_a_thousand_copies_count_once(self, vectorizer, documents):
        """One document is one example, however often it is given."""
        one = documents.take(np.zeros(1000, dtype=int))
        certificate = certify_encoder(vectorizer, one, random_state=0, split=0.0)
        assert "No guarantee: " in str(certificate) and "are too few" in str(certificate)
        assert (certificate.n, certificate.n_duplicates) == (1, 999)
        assert certificate.error_upper > 0.5
        assert "Duplicates: 999 not counted." in str(certificate)
        assert certificate.verify(one, vectorizer)

    @pytest.mark.parametrize("kind", [certify_encoder, certify_words])
    def test_nan_in_a_word_that_no_document_holds_is_refused(self, language, kind):
        """Its score is neither noise nor not: a loss of nothing, or a bound of NaN."""
        texts, _ = language.draw(np.random.default_rng(0), np.tile(np.arange(60), 3))
        (row, *_) = np.setdiff1d(np.arange(language.words.n_words), texts.ids)
        table = np.array(language.words.input_vectors)
        table[row] = np.nan
        with pytest.raises(ValueError, match=f"Got NaN or infinity in row {row}"):
            kind(make_encoder("PB-L2", language.words.replace(input_vectors=table)), texts)

    def test_unknown_words_and_kind_b_of_sentences_are_refused(self, vectorizer, documents):
        unknown = documents._replace(n_unknown=3 * np.diff(documents.offsets))
        with pytest.raises(ValueError, match=r"at least 50% of their words .* Got 25% instead"):
            certify_encoder(vectorizer, unknown)
        with pytest.raises(ValueError, match=r"Got PB-L2 instead.*--method w-PB-neg"):
            certify_documents(vectorizer, documents)
        prior = certify_documents(vectorizer, documents, posterior="prior", test_size=0.2)
        assert prior.posterior == "prior" and "further documents the risk" in prior.details()

    @pytest.mark.parametrize("kind", [certify_encoder, certify_words, certify_squared_loss])
    def test_copies_change_nothing(self, vectorizer, documents, kind):
        twice = documents.take(np.concatenate([np.arange(600), np.arange(0, 600, 2)]))
        once = kind(vectorizer, documents, random_state=0)
        again = kind(vectorizer, twice, random_state=0)
        assert (again.n_duplicates, again.n, again.error_upper) == (300, once.n, once.error_upper)
        assert "Provenance: unknown" in str(again)

    def test_other_case_and_unknown_words_make_no_other_text(self, toy_word_vectors):
        encoder = make_encoder("Average", toy_word_vectors)
        texts = ["good film", "Good film!", "good xyzzy film", "film good", "good"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certificate = certify_encoder(encoder, texts, split=0.0, random_state=0)
        assert (certificate.n_duplicates, certificate.n, certificate.n_left_out) == (2, 2, 1)


class TestVerify:
    def test_the_parts_are_recomputed_from_text_and_vectorizer(self, case, vectorizer, documents):
        certificate, _ = case
        assert certificate.verify(documents, vectorizer)
        with pytest.raises(ValueError, match="text_digest must be"):
            certificate.verify(documents.take(np.arange(599)), vectorizer)
        with pytest.raises(ValueError, match=r"encoder must be .*Got .* instead"):
            certificate.verify(documents, make_encoder("PB-L2", vectorizer.word_vectors, lam=3.0))
        with pytest.raises(ValueError, match="must be given together"):
            certificate.verify(documents)
        sentence = str(certificate)
        assert sentence.startswith(
            "No measure of quality: other texts and other vectors have other baselines. Given the "
            "first 80% of a new, similar document, its vector tells words from the rest of that "
            "document apart from random words. With 95% confidence the average error is at most "
            f"{percent(certificate.error_upper)} (guessing: 50%; these documents with their words "
            f"shuffled among them: {percent(certificate.shuffled_risk)})."
        )
        details = certificate.details()
        assert "their count in the training text of the vectors, to the power 0.75" in details
        assert "on 120 further documents the risk is" in details and "seed is 3" in details
        seeds = {certify_encoder(vectorizer, documents).random_state for _ in range(2)}
        assert len(seeds) == 2  # drawn, and recorded
        forged = dataclasses.replace(certificate, provenance="checked")
        assert forged.verify()  # it is not impossible by itself
        with pytest.raises(ValueError, match="provenance must be"):
            forged.verify(documents, vectorizer)

    @pytest.mark.parametrize(
        "change, message",
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
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(case[0], **change).verify()


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
        drawn = simulation._Continuing.__init__
        monkeypatch.setattr(drawn, "__defaults__", (1000, 30))  # few documents are learned by heart
        honest = simulation.simulate("continuation", "memorising", 20, random_state=0)
        divided = continuation.divided

        def leaking(*arguments, **options):
            _, rest, sample = divided(*arguments, **options)
            return sample, rest, sample

        monkeypatch.setattr(continuation, "divided", leaking)
        leaky = simulation.simulate("continuation", "memorising", 20, random_state=0)
        assert leaky.mean_gap < honest.mean_gap - 0.01


def test_certify_writes_and_verify_reads(tmp_path):
    rng = np.random.default_rng(1)
    pools = [["red", "blue", "green"], ["sea", "sky", "sun"]]
    lines = [" ".join(rng.choice(pools[i % 2], 20)) for i in range(120)]
    model = SkipGram(n_dims=4, min_count=1, n_epochs=2, n_jobs=1, random_state=0)
    words, text, file = (tmp_path / name for name in ("words", "text.txt", "c.json"))
    save(model.fit(lines[:60]).word_vectors_, words)
    text.write_text("\n".join(lines[60:]) + "\n")
    done = invoke("paper", "certify", words, text, "--quiet", "-o", file)
    assert done.exit_code == 0 and "Provenance: checked" not in done.output, done.output
    options = ["--quiet", "--method", "PB-IDF-L2", "--kind", "A", "--json"]
    of_words = invoke("paper", "certify", words, text, *options, status=0)
    assert "IDFVectorizer" in of_words.stdout and read_certificate(of_words.stdout)
    alone = invoke("verify", file)
    assert alone.exit_code == 0 and "the bound follows from its parts" in alone.output
    assert json.loads(invoke("verify", file, text, words, "--json").stdout)["verified"]
    half = invoke("verify", file, text)
    assert half.exit_code == 2 and "Give TEXTS and MODEL, or neither" in half.output


def test_the_calibration_ends_at_its_minimum_whatever_the_length_of_vectors():
    """Whole Newton steps swing between saturated ends where vectors are long."""
    rng = np.random.default_rng(0)
    A_hat = 3 * rng.normal(size=(300, 6)).astype(np.float32)
    topics = rng.normal(size=(150, 6))
    chance = np.exp(topics @ A_hat.T / 3)
    words = [rng.choice(300, 30, p=row / row.sum()) for row in chance]
    tokens = Encoded(
        np.concatenate(words).astype(np.int32), np.arange(151) * 30, np.zeros(150, np.int64)
    )
    p_noise = np.full(300, 1 / 300)
    ends = []
    for length in (0.1, 1.0, 10.0):
        how = A_hat, p_noise, 2.7, np.random.default_rng(0)
        scale, shift = continuation.calibrate(length * topics, tokens, *how)
        ends.append([length * scale, *shift])
    np.testing.assert_allclose(ends[1:], [ends[0], ends[0]], atol=2e-3)
