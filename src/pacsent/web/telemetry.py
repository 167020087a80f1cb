"""OpenTelemetry (extra `otel`): a span and a duration for every request, where it is configured."""

import os
from typing import Any

from fastapi import FastAPI

from pacsent.optional import import_optional

_REASON = "OTEL_EXPORTER_OTLP_ENDPOINT is set and needs OpenTelemetry"


def instrument(app: FastAPI, tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Report the requests of an application to these providers; texts are never reported."""
    fastapi = import_optional("opentelemetry.instrumentation.fastapi", _REASON, "otel")
    fastapi.FastAPIInstrumentor.instrument_app(
        app,
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        exclude_spans=["receive", "send"],
    )


def instrument_from_environment(app: FastAPI) -> None:
    """Send spans and metrics to OTEL_EXPORTER_OTLP_ENDPOINT; do nothing where it is not set.

    The SDK reads OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and its other variables.
    """
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return
    trace, trace_export, metrics, metrics_export, spans, durations = (
        import_optional(f"opentelemetry.{name}", _REASON, "otel")
        for name in (
            "sdk.trace",
            "sdk.trace.export",
            "sdk.metrics",
            "sdk.metrics.export",
            "exporter.otlp.proto.http.trace_exporter",
            "exporter.otlp.proto.http.metric_exporter",
        )
    )
    tracer_provider = trace.TracerProvider()
    processor = trace_export.BatchSpanProcessor(spans.OTLPSpanExporter())
    tracer_provider.add_span_processor(processor)
    reader = metrics_export.PeriodicExportingMetricReader(durations.OTLPMetricExporter())
    instrument(app, tracer_provider, metrics.MeterProvider([reader]))
