"""The same work on a Ray cluster: files by `on_ray`, a Ray Dataset by `Embedder`."""

from collections.abc import Callable, Iterator
from typing import Any

from pacsent.optional import import_optional
from pacsent.scale.jobs import Embed
from pacsent.scale.shard_writer import load_job, work_on

_MAX_RETRIES = 3  # of a file whose process or machine was lost


class Embedder:
    """From Arrow tables with a column of texts to the same tables with `mean` and `variance`.

    It is what `map_batches` of a Ray Dataset takes.

    Parameters
    ----------
    model : str or path
        A folder at the same path on every machine, or "english"; it is opened, memory-mapped, once
        per process.
    text_column : str, default="text"
        The column of the texts.
    **options
        `method` and `encoder`, as of `embed_shards`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> Embedder("english")(pa.table({"text": ["a glass of wine"]})).column_names
    ['text', 'mean', 'variance']
    >>> dataset = ray.data.read_parquet("texts/")  # doctest: +SKIP
    >>> dataset.map_batches(  # doctest: +SKIP
    ...     Embedder, fn_constructor_args=("english",), batch_format="pyarrow", concurrency=8
    ... )
    """

    def __init__(self, model: Any, text_column: str = "text", **options: Any) -> None:
        self.text_column = text_column
        self.job = Embed(str(model), **options)

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        embed = load_job(self.job)
        texts = table.column(self.text_column).combine_chunks()
        columns = embed(texts).columns
        means = columns["mean"]  # (n, n_dims)
        numbers = pa.array(means.reshape(-1))
        mean_lists = pa.FixedSizeListArray.from_arrays(numbers, means.shape[1])
        variances = pa.array(columns["variance"], from_pandas=True)  # nan becomes null

        with_means = table.append_column("mean", mean_lists)
        return with_means.append_column("variance", variances)


def on_ray(address: str | None = None) -> Callable:
    """Return an engine for `embed_shards` and `predict_shards`: files on the cores of a cluster.

    If a process or a machine is lost, its file is started again; since an output is complete or
    absent, every row is written once.

    Parameters
    ----------
    address : str, optional
        None starts a cluster on this machine, or joins the one that is initialized.

    Returns
    -------
    engine : callable
        The `engine` of `embed_shards` and `predict_shards`.

    Examples
    --------
    >>> from pacsent import scale
    >>> scale.embed_shards(  # doctest: +SKIP
    ...     "english", ["s3://bucket/texts/"], "s3://bucket/vectors", engine=on_ray()
    ... )
    """

    def engine(tasks: list, n_jobs: int | None, advance: Callable) -> Iterator[tuple]:
        ray = import_optional("ray", "Every machine of the cluster needs Ray", "ray")
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
        n_running = n_jobs
        if n_running is None or n_running < 1:
            n_cores = int(ray.cluster_resources().get("CPU", 1))
            n_running = max(1, n_cores)
        make_remote = ray.remote(num_cpus=1, max_retries=_MAX_RETRIES)
        start = make_remote(work_on).remote

        waiting = list(reversed(tasks))
        running: dict[Any, Any] = {}
        try:
            while waiting or running:
                while waiting and len(running) < n_running:
                    task = waiting.pop()
                    running[start(task)] = task
                finished, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                for reference in finished:
                    task = running.pop(reference)
                    result = _get_result(ray, reference)
                    advance(getattr(result, "rows", 0))
                    yield task, result
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    return engine


def _get_result(ray: Any, reference: Any) -> Any:
    """The result of a file; an error if its process or its machine is lost."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError:
        raise  # an error in pacsent
    except ray.exceptions.RayError as error:
        reason = str(error).splitlines()[0]
        return RuntimeError(f"it was lost {_MAX_RETRIES + 1} times ({reason})")
