"""mteb's own evaluation of the English model, on STS-B and 20news from our files.

    pip install 'pacsent[mteb]'
    python benchmarks/mteb_own.py --save

Tasks are mteb's kinds (similarity; classification with eight texts a label, ten draws), loaded from
DATA instead of the network. The English benchmark itself, where there is a network:

    python -c "import mteb; from pacsent.paper.mteb import Encoder; \
        mteb.evaluate(Encoder('english'), mteb.get_benchmark('MTEB(eng, v2)'))"
"""

import json
import sys

from harness import finish, parser_for
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper.mteb import Encoder

options = parser_for(__doc__).parse_args()

try:
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.classification import AbsTaskClassification
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata
except ImportError as error:
    print(json.dumps({"benchmark": "mteb_own", "skipped": f"mteb is not installed ({error})"}))
    sys.exit(0)


def metadata(name, kind, score) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        description="From the files that pacsent's benchmarks read.",
        reference=None,
        dataset={"path": "local", "revision": "local"},
        type=kind,
        category="t2t" if kind == "STS" else "t2c",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=score,
        bibtex_citation="",
    )


class OwnSTSB(AbsTaskSTS):
    metadata = metadata("OwnSTSB", "STS", "cosine_spearman")
    min_score, max_score = 0, 5

    def load_data(self, *args, **kwargs):
        pairs = datasets.load("stsb", options.data)
        columns = {
            "sentence1": list(pairs.first["test"]),
            "sentence2": list(pairs.second["test"]),
            "score": [float(score) for score in pairs.scores["test"]],
        }
        self.dataset = DatasetDict(test=Dataset.from_dict(columns))
        self.data_loaded = True


class OwnNews(AbsTaskClassification):
    metadata = metadata("OwnNews", "Classification", "accuracy")

    def load_data(self, *args, **kwargs):
        news = datasets.load("20news", options.data)
        parts = {
            "train": (news.train_texts, news.train_labels),
            "test": (news.test_texts, news.test_labels),
        }
        self.dataset = DatasetDict(
            {
                name: Dataset.from_dict({"text": list(texts), "label": [int(y) for y in labels]})
                for name, (texts, labels) in parts.items()
            }
        )
        self.data_loaded = True


rows = []
for method in ("SIF-sum", "SIF", "Average"):
    encoder = Encoder("english", method)
    found = mteb.evaluate(
        encoder, [OwnSTSB(), OwnNews()], cache=None, co2_tracker=False, show_progress_bar=False
    )
    for result in found.task_results:
        [scores] = result.scores["test"]
        rows.append(
            {
                "task": result.task_name,
                "method": method,
                "score": scores["main_score"],
                "what": "Spearman correlation" if "STSB" in result.task_name else "accuracy",
            }
        )
        print(rows[-1], flush=True)
finish(
    "mteb_own",
    rows,
    title=f"mteb {mteb.__version__}: the English model on our own files",
    summary={f"{row['task']}, {row['method']}": row["score"] for row in rows[:2]},
    save=options.save,
    name=options.name,
)
