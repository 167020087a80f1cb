"""The same work on a Ray cluster."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from pacsent.optional import import_optional
from pacsent.scale.jobs import Embed, pyarrow
from pacsent.scale.shard_runner import outcome

_RETRIES = 3  # of a file whose process or machine was lost


def _ray():
    return import_optional("ray", "Every machine of the cluster needs Ray", "ray")


@lru_cache(maxsize=4)
def _opened(model: str, method: str | None, params: tuple) -> Callable:
    return Embed(model, method, dict(params)).ready()


class Embedder:
    """Arrow tables with a column of texts to the same tables with `mean` and `variance`.

    The model, a folder at the same place on every machine or "english", is opened, memory-mapped,
    once in a process. `method` and `params` are as in `scale.Embed`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> Embedder("english")(pa.table({"text": ["a glass of wine"]})).column_names
    ['text', 'mean', 'variance']
    """

    def __init__(
        self,
        model: Any,
        text_column: str = "text",
        *,
        method: str | None = None,
        params: dict | None = None,
    ):
        self.text_column = text_column
        self._job = (str(model), method, tuple(sorted((params or {}).items())))

    def __call__(self, table):
        pa = pyarrow()
        texts = table.column(self.text_column)
        if isinstance(texts, pa.ChunkedArray):
            texts = texts.combine_chunks()
        found = _opened(*self._job)(texts).columns
        numbers = pa.array(found["mean"].reshape(-1))
        means = pa.FixedSizeListArray.from_arrays(numbers, found["mean"].shape[1])
        variances = pa.array(found["variance"], from_pandas=True)  # nan becomes null
        return table.append_column("mean", means).append_column("variance", variances)


def embed(
    dataset: Any,
    model: Any,
    *,
    text_column: str = "text",
    n_actors: int | None = None,
    batch_size: int = 4096,
    **how: Any,
) -> Any:
    """A Ray Dataset with the vectors of its texts: columns `mean` and `variance`.

    `model` is a folder that every machine of the cluster sees, or "english". `n_actors` processes
    of one core hold the model; None takes one for each core of the cluster. Further arguments are
    method and params, as of `scale.Embed`.

    Examples
    --------
    What an actor does with a batch, and, where Ray is installed, a folder on all machines:

    >>> import pyarrow
    >>> Embedder("english")(pyarrow.table({"text": ["a glass of wine"]})).column_names
    ['text', 'mean', 'variance']
    >>> import ray  # doctest: +SKIP
    >>> embed(ray.data.read_parquet("texts/"), "english")  # doctest: +SKIP
    """
    ray = _ray()
    if n_actors is None:
        n_actors = max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)
    return dataset.map_batches(
        Embedder,
        fn_constructor_args=(str(model), text_column),
        fn_constructor_kwargs=how,
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(size=n_actors),
        num_cpus=1,
    )


def _work(task: Any) -> Any:
    """One file, in a process that Ray keeps for the next: the model is opened with the first."""
    return outcome(task, lambda n: None)


def on_ray(address: str | None = None) -> Callable:
    """An engine for `embed_shards` and `predict_shards`: files on the cores of a cluster.

    The file of a process or a machine that is lost is begun again; since an output is there whole
    or not at all, every row is there once. An `address` of None starts a cluster on this machine,
    or joins the one that is initialised.

    Examples
    --------
    >>> engine = on_ray("ray-head:6379")  # joined when there is work
    """

    def engine(tasks: list, n_jobs: int | None, shown) -> Iterator[tuple]:
        ray = _ray()
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
        n_cores = int(ray.cluster_resources().get("CPU", 1))
        most = max(1, n_cores if n_jobs is None or n_jobs < 1 else n_jobs)
        start = ray.remote(num_cpus=1, max_retries=_RETRIES)(_work).remote
        waiting = list(reversed(tasks))
        running: dict[Any, Any] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    task = waiting.pop()
                    running[start(task)] = task
                for done in ray.wait(list(running), num_returns=1, timeout=1.0)[0]:
                    task = running.pop(done)
                    try:
                        result = ray.get(done)
                    except ray.exceptions.RayTaskError:
                        raise  # a mistake of ours
                    except ray.exceptions.RayError as error:  # the process or its machine is gone
                        about = str(error).splitlines()[0]
                        result = RuntimeError(f"it was lost {_RETRIES + 1} times ({about})")
                    if hasattr(result, "rows"):
                        shown.advance(result.rows)
                    yield task, result
        finally:
            for one in running:
                ray.cancel(one, force=True)

    return engine
