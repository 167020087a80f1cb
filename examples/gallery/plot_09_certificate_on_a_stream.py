"""
An encoder certificate on a stream
==================================

The certificate concerns the words that follow the first 80% of a document. This bound on the mean
holds after all documents simultaneously.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import certify_encoder, make_encoder
from pacsent.bounds.means import differing_means
from pacsent.certify.certificate import unpack_losses
from pacsent.datasets import load_books

texts = [passage.text for passage in load_books()]
texts = [texts[i] for i in np.random.default_rng(0).permutation(len(texts))]
certificate = certify_encoder(make_encoder("PB-L2", "english"), texts, random_state=0)
print(certificate)

# %%
# The bound as documents arrive, from the losses in the certificate.

losses = unpack_losses(certificate.losses)
times = np.unique(np.geomspace(1, len(losses), 60).astype(int))
path = [differing_means(losses[:t], certificate.delta) for t in times]
figure, axis = plt.subplots(figsize=(7, 3.6))
axis.semilogx(times, path, label="certified, simultaneously")
axis.semilogx(times, [losses[:t].mean() for t in times], label="mean so far")
axis.axhline(0.5, color="gray", ls="--", label="guessing")
axis.set(xlabel="documents seen", ylabel="error", ylim=(0, 1.02))
axis.legend()
figure.tight_layout()

# %%
# In a notebook the certificate is displayed as a table.

certificate
