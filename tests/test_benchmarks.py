"""Every benchmark runs without arguments, has the same options, and is run by `make bench`."""

import importlib
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
HELPERS = ("harness", "make_tables", "setfit_procedure", "target_data", "tiny", "word_tasks")
BENCHMARKS = sorted(p.stem for p in (ROOT / "benchmarks").glob("*.py") if p.stem not in HELPERS)


def source_of(name):
    return (ROOT / "benchmarks" / f"{name}.py").read_text()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_has_the_common_options_and_none_that_is_required(name):
    code = source_of(name)

    assert "parser_for(__doc__" in code
    assert "required=True" not in code


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_ends_with_its_table_and_its_json_line(name):
    assert "finish(" in source_of(name)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_positional_arguments_of_a_benchmark_have_defaults(name):
    for argument in re.findall(r"add_argument\(\s*\"[^-][^)]*\)", source_of(name)):
        assert 'nargs="?"' in argument
        assert "default=" in argument


def test_make_bench_runs_every_benchmark():
    makefile = (ROOT / "Makefile").read_text()

    jobs = re.search(r"for job in ([\w ]+);", makefile)[1]

    assert sorted(jobs.split()) == BENCHMARKS


def test_every_benchmark_is_run_here_or_elsewhere():
    run_here = {run.split()[0] for run in RUNS}

    assert run_here | ELSEWHERE == set(BENCHMARKS)


@pytest.mark.parametrize(
    ("later", "same"),
    [
        ('def f(x: int):\n    """Twice x."""\n    # fast\n    return 2 * x\n', True),
        ("import numpy\n\ndef g(x): ...\n\ndef f(x):\n    return 2 * x\n", True),
        ("def f(x):\n    return 3 * x\n", False),
    ],
)
def test_a_result_is_out_of_date_if_code_changed_and_not_if_words_did(later, same, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    check_results = importlib.import_module("check_results")
    before = {}
    after = {}

    check_results.add_definitions('def f(x):\n    """Double."""\n    return 2 * x\n', before)
    check_results.add_definitions(later, after)

    assert (before["f"] <= after["f"]) == same


def test_the_divergence_of_a_gaussian_process_is_that_of_its_values(monkeypatch):
    """By weights, a sum over them; by the values K = R R' at the texts, that of two Gaussians."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    classify_bounds = importlib.import_module("classify_bounds")
    rng = np.random.default_rng(0)
    kernel = np.cov(rng.normal(size=(8, 30)))
    R = np.linalg.cholesky(kernel)
    mean = rng.normal(size=8)
    variances = rng.uniform(0.1, 2.0, 8)

    by_weights = classify_bounds.divergence(mean, variances)

    K = R @ R.T
    covariance = (R * variances) @ R.T
    values = R @ mean
    _, log_det_prior = np.linalg.slogdet(K)
    _, log_det = np.linalg.slogdet(covariance)
    trace = np.trace(np.linalg.solve(K, covariance))
    distance = values @ np.linalg.solve(K, values)
    by_values = 0.5 * (trace - 8 + distance + log_det_prior - log_det)
    assert by_weights == pytest.approx(by_values)


# Benchmarks and arguments, each run on tiny data. Not those that need a GPU (train_gpu), texts that
# are not part of the data, or are tested with their package.
RUNS = (
    "alternatives --draws 1",
    "banking_example",
    "classify accuracy --sets subj --seeds 1",
    "classify few --sets subj --labels 20",
    "classify speed --sets subj",
    "classify_bounds --sets subj --labels 50",
    "certify",
    "comparison --texts 10",
    "drift --parts repeats abstention --draws 1 --processes 1",
    "few_labels --sets subj --labels 20 --draws 1",
    "growth --tasks certify duplicates encode",
    "guarantees --sets subj --draws 10",
    "encoders",
    "html_page",
    "cold --rounds 1 --tasks encode",
    "encode",
    "english retrieval",
    "english sizes",
    "judges --draws 2 --processes 1",
    "judge_leaks --draws 2 --processes 1",
    "labels --part stop --draws 1",
    "labels --part goal",
    "labels --part curve --sets subj --draws 1 --processes 1",
    "labels --part next --sets subj --draws 1 --processes 1",
    "labels --part wrong --sets subj --draws 1 --processes 1",
    "multilingual",
    "own_posteriors --n 200",
    "many_classes --classes 4 8 --texts 4",
    "posterior_variance --n-draws 1",
    "protocol",
    "pac_bayes --datasets subj --n 100 --n-draws 1 --n-processes 1",
    "printed loss",
    "printed optimiser --sentences 10",
    "scale --rows 500 --rounds 1",
    "search speed --texts 200",
    "search guarantee --draws 3",
    "search asymmetric",
    "simulate --replicates 2 --n-jobs 1",
    "simulate drift --replicates 2",
    "solver --shapes subj --ways dual --seeds 1",
    "solve --rounds 1 --baseline 1 --exact 4",
    "targets",
    "train --n-words 5000 --workers 1 --repeat 1",
    "vectors_in_classifier --sets banking --draws 2",
)
# What a run needs besides [dev].
NEEDS = {
    "html_page": ("playwright",),
    "encode": ("gensim", "model2vec"),
    "labels --part next --sets subj --draws 1 --processes 1": ("skactiveml",),
    "labels --part wrong --sets subj --draws 1 --processes 1": ("cleanlab",),
    "scale --rows 500 --rounds 1": ("pyarrow",),
    "solve --rounds 1 --baseline 1 --exact 4": ("torch",),
    "train --n-words 5000 --workers 1 --repeat 1": ("gensim",),
}
ELSEWHERE = {
    "cluster",
    "repeats",
    "serve",
    "serve_classifier",
    "train_gpu",
    "own_language",
    "label_checking",
    "judge_fit",
    "idf_cost",
}


@pytest.fixture(scope="module")
def tiny_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    subprocess.run([sys.executable, ROOT / "benchmarks" / "tiny.py", folder], check=True)
    return folder


@pytest.mark.benchmark
@pytest.mark.parametrize("run", RUNS)
def test_a_benchmark_runs_on_tiny_data(run, tiny_data):
    missing = [module for module in NEEDS.get(run, ()) if find_spec(module) is None]
    if missing:
        pytest.skip(f"the extra [bench] is not installed: {', '.join(missing)}")
    name, *arguments = run.split()
    script = ROOT / "benchmarks" / f"{name}.py"
    environment = {**os.environ, "PACSENT_TINY": "1"}

    done = subprocess.run(
        [sys.executable, script, "--data", tiny_data, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tiny_data,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])["benchmark"] == name
