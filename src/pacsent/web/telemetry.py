"""OpenTelemetry (extra `otel`): a span and a duration for every request, where it is configured."""

import os
from typing import Any

from fastapi import FastAPI

from pacsent.optional import import_optional

_OTLP = "exporter.otlp.proto.http"
_REASON = "OTEL_EXPORTER_OTLP_ENDPOINT is set and needs OpenTelemetry"


def instrument(app: FastAPI, tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Report the requests of an application to these providers; texts are never reported."""
    fastapi = import_optional("opentelemetry.instrumentation.fastapi", _REASON, "otel")
    fastapi.FastAPIInstrumentor.instrument_app(
        app,
        exclude_spans=["receive", "send"],
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
    )


def instrument_from_environment(app: FastAPI) -> None:
    """Send spans and metrics to OTEL_EXPORTER_OTLP_ENDPOINT; do nothing where it is not set."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return

    def load(module: str) -> Any:
        return import_optional(f"opentelemetry.{module}", _REASON, "otel")

    spans = load(f"{_OTLP}.trace_exporter").OTLPSpanExporter()
    span_processor = load("sdk.trace.export").BatchSpanProcessor(spans)
    tracer_provider = load("sdk.trace").TracerProvider()
    tracer_provider.add_span_processor(span_processor)

    durations = load(f"{_OTLP}.metric_exporter").OTLPMetricExporter()
    reader = load("sdk.metrics.export").PeriodicExportingMetricReader(durations)
    meter_provider = load("sdk.metrics").MeterProvider([reader])
    instrument(app, tracer_provider, meter_provider)
