"""The documentation of the POSTs: schemas for OpenAPI, and a page of them without scripts."""

import html
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

_TEXTS = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_POSTS: dict[str, tuple[str, dict[str, Any], list[str], dict[str, Any]]] = {
    "/v1/embeddings": (
        "Embeddings, as OpenAI's clients ask for them",
        {
            "input": _TEXTS,
            "model": {"type": "string"},
            "encoding_format": {"type": "string", "enum": ["float", "base64"], "default": "float"},
            "dimensions": {"type": "integer", "minimum": 1},
            "user": {"type": "string"},
        },
        ["input"],
        {"input": ["a glass of wine", "the cat slept"]},
    ),
    "/embed": (
        "Posteriors: mean, variance, coverage, unknown words",
        {
            "texts": _TEXTS,
            "mean": {"type": "boolean", "default": True},
            "unknown": {"type": "boolean", "default": True},
            "words": {"type": "boolean", "default": False},
        },
        ["texts"],
        {"texts": "a glass of wine", "words": True},
    ),
    "/similarity": (
        "Cosines of pairs of texts, or of all texts with each other",
        {"a": _TEXTS, "b": _TEXTS},
        ["a"],
        {"a": "a glass of wine", "b": "a cup of tea"},
    ),
    "/classify": (
        "Label, probability, set of labels, whether it abstains, and why",
        {"texts": _TEXTS, "explain": {"type": "boolean", "default": False}},
        ["texts"],
        {"texts": "a good film", "explain": True},
    ),
    "/search": (
        "The nearest texts of the index",
        {"query": _TEXTS, "k": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}},
        ["query"],
        {"query": "a sleeping kitten", "k": 3},
    ),
}


def add_posts(app: FastAPI, table: "dict[str, Callable[[bytes], Awaitable]]") -> None:
    """Put the POSTs into the schema; the way in `Front` is shorter and leads to the same."""
    for path, handler in table.items():
        summary, properties, required, example = _POSTS[path]
        schema = {"type": "object", "properties": properties, "required": required}
        content = {"application/json": {"schema": schema, "example": example}}
        app.add_api_route(
            path,
            _through(handler),
            methods=["POST"],
            summary=summary,
            openapi_extra={"requestBody": {"required": True, "content": content}},
        )


def _through(handler):
    async def answer(request: Request):
        found = await handler(await request.body())
        return Response(found.body, media_type="application/json")

    return answer


def as_page(schema: dict[str, Any]) -> str:
    """The schema as a page that needs no script."""
    import json

    parts = []
    for path, methods in schema["paths"].items():
        for method, about in methods.items():
            body = about.get("requestBody", {}).get("content", {}).get("application/json", {})
            shown = f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
            shown += f"<p>{html.escape(about.get('summary', ''))}.</p>"
            if body:
                example = html.escape(json.dumps(body["example"]))
                fields = html.escape(json.dumps(body["schema"]["properties"], indent=1))
                shown += f"<pre>{example}</pre><details><summary>Fields</summary><pre>{fields}"
                shown += "</pre></details>"
            parts.append(f"<section>{shown}</section>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width"><title>pacsent: addresses</title>'
        '<link rel="stylesheet" href="/page/page.css"></head><body><main class="plain"><h1>'
        'Addresses</h1><p>The same for programs: <a href="/openapi.json">openapi.json</a>. '
        '<a href="/">The page to try them</a>.</p>' + "".join(parts) + "</main></body></html>"
    )
