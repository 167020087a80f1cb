"""The baselines of `benchmarks/serve.py`: plain FastAPI handlers.

    python benchmarks/baselines/handlers.py PORT MODEL2VEC_FOLDER

/empty returns an empty object, /model2vec is the handler that the documentation of both libraries
suggests, and /model2vec-orjson is the same with a faster writer of JSON.
"""

import sys

import orjson
import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response
from model2vec import StaticModel

app = FastAPI()
model = StaticModel.from_pretrained(sys.argv[2])


@app.post("/empty")
async def empty():
    return {}


@app.post("/model2vec")
def embeddings(body: dict[str, list[str]]):
    return {"embeddings": model.encode(body["input"], use_multiprocessing=False).tolist()}


@app.post("/model2vec-orjson")
def embeddings_orjson(body: dict[str, list[str]]):
    found = {"embeddings": model.encode(body["input"], use_multiprocessing=False)}
    body = orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="error")
