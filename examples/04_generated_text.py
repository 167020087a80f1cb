"""Compare sentence methods on text from the generative model of Nozawa and Sato (2019).

Prints test accuracy, certified risk and held-out risk of each method.
"""

from pacsent import SkipGram, certify_encoder, evaluate, make_encoder
from pacsent.paper import generate

settings = {"n_topics": 4, "n_words": 500, "topic_share": 0.5}
source = generate(3000, n_tokens=90, random_state=1, **settings)
target = generate(1200, n_tokens=50, random_state=2, **settings)
print("a document:", target.texts[0][:60])

training = SkipGram(24, subsample=1e-3, n_negatives=5, n_epochs=5, random_state=0, n_jobs=1)
words = training.fit(source.texts).word_vectors_

print(f"{'method':10} {'accuracy':>8} {'certified':>9} {'held out':>8}")
for method in ("Average", "PB-L2", "PB-neg"):
    result = evaluate(method, target.dataset(), words, lams=None, seeds=(0,), Cs=(1.0, 10.0))
    if method == "Average":
        print(f"{method:10} {result.accuracy:8.3f}")
        continue
    certificate = certify_encoder(
        make_encoder(method, words), target.texts, test_size=0.2, random_state=0
    )
    print(
        f"{method:10} {result.accuracy:8.3f} {certificate.error_upper:9.3f} "
        f"{certificate.held_out_risk:8.3f}"
    )
