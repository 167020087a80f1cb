"""OpenTelemetry: a span and a duration for every request, where its environment variables ask.

OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER (otlp, console, none)
turn it on; the SDK reads OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS
and the rest. Texts are never exported.
"""

import os
from collections.abc import Mapping
from typing import Any

from pacsent.optional import import_optional

_ON = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")
_EXTRA = "otel"


class Telemetry:
    """Writes the spans and durations of requests; `None` for a provider that is not wanted."""

    def __init__(self, tracer_provider: Any = None, meter_provider: Any = None):
        self._providers = [one for one in (tracer_provider, meter_provider) if one is not None]
        trace = import_optional(
            "opentelemetry.trace", "Traces and metrics need OpenTelemetry", _EXTRA
        )
        self._kind, self._status = trace.SpanKind.SERVER, trace.StatusCode.ERROR
        self._tracer = tracer_provider.get_tracer("pacsent") if tracer_provider else None
        self._seconds = None
        if meter_provider is not None:
            self._seconds = meter_provider.get_meter("pacsent").create_histogram(
                "http.server.request.duration", "s", "Duration of requests."
            )

    def request(
        self, method: str, route: str, status: int, seconds: float, start_ns: int, headers: Any
    ) -> None:
        """A request that was answered; `headers` may hold the `traceparent` of the caller."""
        about = {"http.request.method": method, "http.route": route,
                 "http.response.status_code": status, "url.scheme": "http"}  # fmt: skip
        if self._seconds is not None:
            self._seconds.record(seconds, about)
        if self._tracer is not None:
            propagate = import_optional(
                "opentelemetry.propagate", "Traces and metrics need OpenTelemetry", _EXTRA
            )
            context = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
            span = self._tracer.start_span(
                f"{method} {route}", propagate.extract(context), self._kind, about,
                start_time=start_ns,
            )  # fmt: skip
            if status >= 500:
                span.set_status(self._status)
            span.end(start_ns + int(1e9 * seconds))

    def close(self) -> None:
        """Send what is still to be sent."""
        for provider in self._providers:
            provider.shutdown()


def telemetry_from(environment: Mapping[str, str] = os.environ) -> Telemetry | None:
    """What the standard variables ask for; None where they ask for nothing.

    >>> telemetry_from({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}) is None
    True
    """
    wanted = any(environment.get(name) for name in _ON)
    if not wanted or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    why = "The variables OTEL_* are set and need OpenTelemetry"
    resources = import_optional("opentelemetry.sdk.resources", why, _EXTRA)
    named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = resources.Resource.create({} if named else {"service.name": "pacsent"})
    tracers = meters = None
    exporter = _exporter(environment, "TRACES", "trace_exporter.OTLPSpanExporter",
                         "trace.export.ConsoleSpanExporter", why)  # fmt: skip
    if exporter is not None:
        sdk = import_optional("opentelemetry.sdk.trace", why, _EXTRA)
        export = import_optional("opentelemetry.sdk.trace.export", why, _EXTRA)
        tracers = sdk.TracerProvider(resource=resource)
        tracers.add_span_processor(export.BatchSpanProcessor(exporter))
    exporter = _exporter(environment, "METRICS", "metric_exporter.OTLPMetricExporter",
                         "metrics.export.ConsoleMetricExporter", why)  # fmt: skip
    if exporter is not None:
        sdk = import_optional("opentelemetry.sdk.metrics", why, _EXTRA)
        export = import_optional("opentelemetry.sdk.metrics.export", why, _EXTRA)
        meters = sdk.MeterProvider([export.PeriodicExportingMetricReader(exporter)], resource)
    return Telemetry(tracers, meters)


def _exporter(environment, what, otlp, console, why) -> Any:
    """The exporter of traces or metrics that the variables name; OTLP over HTTP by default."""
    chosen = environment.get(f"OTEL_{what}_EXPORTER") or "otlp"
    if chosen == "none":
        return None
    if chosen not in ("otlp", "console"):
        raise ValueError(
            f"OTEL_{what}_EXPORTER must be otlp, console or none. Got {chosen!r} instead."
        )
    place, _, name = (
        f"opentelemetry.exporter.otlp.proto.http.{otlp}"
        if chosen == "otlp"
        else f"opentelemetry.sdk.{console}"
    ).rpartition(".")
    return getattr(import_optional(place, why, _EXTRA), name)()
