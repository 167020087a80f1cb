"""Certify an encoder and verify the certificate.

    python examples/03_certify.py

The texts come from the generative model of Nozawa and Sato (2019), so the example needs no file.
"""

from pacsent import SkipGram, certify_encoder, make_encoder
from pacsent.paper import benchmark_datasets as datasets

source = datasets.generate(2000, random_state=0)
target = datasets.generate(1000, random_state=1)
words = (
    SkipGram(
        50, window=10, subsample=1e-3, n_epochs=5, learning_rate=0.05, n_jobs=1, random_state=0
    )
    .fit(source.texts)
    .word_vectors_
)

certificate = certify_encoder(
    make_encoder("PB-neg", words), target.texts, delta=0.05, random_state=0
)
print(certificate)
print("recomputed from its parts:", certificate.verify())
