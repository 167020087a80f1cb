"""Several models behind one server: a request names one of them, or gets the first."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pacsent.web.endpoints import Endpoints, Handler, Reply
from pacsent.web.metrics import Metrics
from pacsent.web.schemas import EmbeddingsRequest, Problem
from pacsent.web.served import Served
from pacsent.web.settings import Settings


class SeveralEndpoints:
    """The endpoints of every model, as those of one.

    >>> from pacsent import make
    >>> models = [Served(name, make("SIF-sum", "english")) for name in ("a", "b")]
    >>> several = SeveralEndpoints(models, Settings(), Metrics())
    >>> several.of("b").served.name
    'b'
    """

    def __init__(self, models: Sequence[Served], settings: Settings, metrics: Metrics):
        self._all = {served.name: Endpoints(served, settings, metrics) for served in models}
        if len(self._all) < len(models):
            raise ValueError("Models must have different names. Give them as --model NAME=FOLDER.")
        self.settings, self.metrics = settings, metrics
        self.models = list(models)
        self.served = self.models[0]

    def of(self, name: str | None, path: str = "") -> Endpoints:
        """The endpoints of a model; `Problem` where it is not there, or has no such address.

        Without a name, the first model that answers at the address.
        """
        if name is not None:
            found = self._all.get(name) or self._all.get(name.removesuffix(":latest"))
            if found is None:
                there = ", ".join(map(repr, self._all))
                raise Problem(404, f"This server has the models {there}. Ask for one of them.",
                              param="model")  # fmt: skip
            if path and path not in found.table():
                raise Problem(404, f"The model {name!r} does not answer {path}.", param="model")
            return found
        return next(one for one in self._all.values() if not path or path in one.table())

    def table(self) -> dict[str, tuple[type, Handler]]:
        """As that of one model; the model is chosen when a request is there."""
        if len(self._all) == 1:
            return self._all[self.served.name].table()
        found: dict[str, tuple[type, Handler]] = {}
        for endpoints in self._all.values():
            for path, (schema, handler) in endpoints.table().items():
                plain = EmbeddingsRequest if path == "/v1/embeddings" else schema
                asked = partial(self._answer, path)
                asked.__doc__ = handler.__doc__
                found.setdefault(path, (plain, asked))
        return found

    async def _answer(self, path: str, asked: Any) -> Reply:
        return await self.of(asked.model, path).table()[path][1](asked)

    def close(self) -> None:
        for endpoints in self._all.values():
            endpoints.close()
