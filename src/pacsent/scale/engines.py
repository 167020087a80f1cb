"""The same work on other people's engines: Ray, and whatever hands over pandas or Arrow batches."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from pacsent.lazy import needed
from pacsent.scale.jobs import Embed, pyarrow
from pacsent.scale.shard_runner import outcome

_RETRIES = 3  # of a file whose actor or node was lost


def _ray():
    return needed("ray", "Every machine of the cluster needs Ray", "ray")


@lru_cache(maxsize=4)
def _opened(model: str, method: str | None, unknown: str | None, params: tuple) -> Callable:
    return Embed(model, method, unknown, dict(params)).ready()


class Embedder:
    """Arrow tables with a column of texts to the same tables with `mean` and `variance`.

    The model is opened, memory-mapped, once in a process.

    Parameters
    ----------
    model : str
        A folder, or "english"; on every machine at the same place.
    text_column : str, default="text"
    method, unknown, params
        As `scale.Embed`.

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
        unknown: str | None = None,
        params: dict | None = None,
    ):
        self.text_column = text_column
        self._job = (str(model), method, unknown, tuple(sorted((params or {}).items())))

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

    def frames(self, frames: Iterable) -> Iterator:
        """The same for pandas DataFrames: what Spark's `mapInPandas` takes."""
        pa = pyarrow()
        for frame in frames:
            texts = pa.table({self.text_column: pa.array(frame[self.text_column], pa.string())})
            table = self(texts)
            frame = frame.copy()
            frame["mean"] = list(
                table["mean"].combine_chunks().flatten().to_numpy().reshape(len(frame), -1)
            )
            frame["variance"] = table["variance"].to_numpy()
            yield frame


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

    Parameters
    ----------
    dataset : ray.data.Dataset
    model : str
        A folder that every machine of the cluster sees, or "english".
    text_column : str, default="text"
    n_actors : int or None
        Processes of one core that hold the model; None takes one for each core of the cluster.
    batch_size : int, default=4096
    **how
        method, unknown and params, as of `scale.Embed`.

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


class _Actor:
    """Works on one file after the other; the model is opened with the first."""

    def ready(self):
        """Answers once the actor has a core."""

    def work(self, task):
        return outcome(task, lambda n: None)


class _Crew:
    """Actors of a cluster and what they are doing; a lost one is replaced, its task begun again.

    Only an actor that has answered once is given a task: one that was asked for may wait for a core
    for ever, since the others keep theirs.
    """

    def __init__(self, ray, tasks: list, n_actors: int):
        self.ray, self.n_actors = ray, n_actors
        self.start = ray.remote(num_cpus=1)(_Actor).remote
        self.waiting = list(reversed(list(enumerate(tasks))))
        self.losses = [0] * len(tasks)
        self.starting: dict = {}
        self.idle: list = []
        self.running: dict = {}

    def hand_out(self) -> None:
        """Ask for actors where some are missing; give a task to each that is idle."""
        wanted = min(self.n_actors, len(self.waiting) + len(self.running))
        while len(self.starting) + len(self.idle) + len(self.running) < wanted:
            actor = self.start()
            self.starting[actor.ready.remote()] = actor
        while self.waiting and self.idle:
            place, task = self.waiting.pop()
            actor = self.idle.pop()
            self.running[actor.work.remote(task)] = place, task, actor

    def results(self) -> Iterator[tuple]:
        """(task, result) of what ends within a second."""
        ray = self.ray
        refs = [*self.running, *self.starting]
        for done in ray.wait(refs, num_returns=1, timeout=1.0)[0]:
            if done in self.starting:
                actor = self.starting.pop(done)
                with contextlib.suppress(ray.exceptions.RayError):  # lost before it began
                    ray.get(done)
                    self.idle.append(actor)
                continue
            place, task, actor = self.running.pop(done)
            try:
                result = ray.get(done)
                self.idle.append(actor)
            except ray.exceptions.RayTaskError:
                raise  # a mistake of ours
            except ray.exceptions.RayError as error:  # the actor or its machine is gone
                self.losses[place] += 1
                if self.losses[place] <= _RETRIES:
                    self.waiting.append((place, task))
                    continue
                about = str(error).splitlines()[0]
                result = RuntimeError(f"its actor was lost {_RETRIES + 1} times ({about})")
            yield task, result

    def end(self) -> None:
        """Give the cores back."""
        actors = [*self.starting.values(), *self.idle, *(held[2] for held in self.running.values())]
        for actor in actors:
            self.ray.kill(actor)


def on_ray(address: str | None = None) -> Callable:
    """An engine for `embed_shards`, `count_words` and others: files on the actors of a cluster.

    An actor or a machine that is lost is replaced, and its file begun again; since an output is
    there whole or not at all, every row is there once.

    Parameters
    ----------
    address : str or None
        Of the cluster; None starts one on this machine, or joins the one that is initialised.

    Examples
    --------
    >>> engine = on_ray("ray-head:6379")  # joined when there is work
    """

    def engine(tasks: list, n_jobs: int | None, shown) -> Iterator[tuple]:
        ray = _ray()
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
        n_cores = int(ray.cluster_resources().get("CPU", 1))
        n_actors = max(1, min(len(tasks), n_cores if n_jobs is None or n_jobs < 1 else n_jobs))
        crew = _Crew(ray, tasks, n_actors)
        try:
            while crew.waiting or crew.running:
                crew.hand_out()
                for task, result in crew.results():
                    if hasattr(result, "rows"):
                        shown.advance(result.rows)
                    yield task, result
        finally:
            crew.end()

    return engine
