"""
A server and its client
=======================

``pacsent serve english`` implements OpenAI's embeddings API, so any of its clients works. This
example uses the standard library only.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request

import matplotlib.pyplot as plt
import numpy as np

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = subprocess.Popen(
    [sys.executable, "-m", "pacsent", "serve", "english", "--port", str(port)],
    stderr=subprocess.DEVNULL,
)
address = f"http://127.0.0.1:{port}"


def ask(where, question=None):
    body = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(
        address + where, data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


for _ in range(300):
    try:
        ask("/health")
        break
    except OSError:
        time.sleep(0.2)

# %%
# Embeddings in OpenAI's format have unit length, so inner products are cosines.

texts = ["a glass of wine", "a bottle of beer", "the cat slept", "a sleeping kitten"]
answer = ask("/v1/embeddings", {"model": "english", "input": texts})
vectors = np.array([row["embedding"] for row in answer["data"]])
print(vectors.shape, answer["usage"])

figure, axis = plt.subplots(figsize=(5.5, 4))
picture = axis.imshow(vectors @ vectors.T, vmin=0, vmax=1)
axis.set_xticks(range(4), texts, rotation=40, ha="right")
axis.set_yticks(range(4), texts)
figure.colorbar(picture, label="cosine")
figure.tight_layout()

# %%
# The endpoint ``/embed`` also returns variance, coverage and out-of-vocabulary words.

found = ask("/embed", {"texts": ["a glass of xyzzy"], "mean": False})
print(json.dumps(found, indent=1)[:400])
server.terminate()
server.wait(30)
