"""The columns of the lake's `observations` table: names, types, where in an item each value stands.

Promises one declaration that the frame, the page reader and the lake's files all follow. Leaves out bounds
and conversion: see `schemas.observations`.
"""

from dataclasses import dataclass

import polars as pl

from tessera import observations

ITEM_SCHEMA = observations.SCHEMA
TIME = pl.Datetime("us", "UTC")

_TEXTS = pl.List(pl.String())
_WORDING = pl.Struct(dict.fromkeys(observations.WORDING, pl.String()))
_ARMS = pl.List(pl.Struct({"arm": pl.String(), "weight": pl.Float64()}))
_POLICY = pl.Struct({"store": pl.String(), "key": pl.String(), "version": pl.Int64()})
_DRAWS = pl.List(
    pl.Struct(
        {
            "dimension": pl.String(),
            "arm": pl.String(),
            "propensity": pl.Float64(),
            "arms": _ARMS,
            "policy": _POLICY,
        }
    )
)
_UNKNOWNS = pl.List(pl.Struct({"field": pl.String(), "reason": pl.String()}))
_ADVICE = pl.List(
    pl.Struct(
        {
            "learner": pl.String(),
            "strategy": pl.String(),
            "version": pl.Int64(),
            "store": pl.String(),
            "key": pl.String(),
            "record_version": pl.Int64(),
        }
    )
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, polars type, the dotted path of its value in an item, whether null is allowed."""

    name: str
    dtype: pl.DataType
    path: str
    nullable: bool = True


_S, _I, _F, _B = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
COLUMNS: tuple[Column, ...] = (
    Column("queue", _S, "server.queue", False),
    Column("cursor", _I, "cursor", False),
    Column("run_id", _S, "run_id", False),
    Column("origin", _S, "server.origin", False),
    Column("kind", _S, "server.kind", False),
    Column("template", _S, "brief.template"),
    Column("phrasing", _S, "brief.phrasing"),
    Column("tags", _TEXTS, "brief.tags", False),
    Column("wording", _WORDING, "brief.wording", False),
    Column("wording_truncated", _B, "brief.wording_truncated", False),
    Column("shape", _S, "brief.shape", False),
    Column("shape_truncated", _B, "brief.shape_truncated", False),
    Column("input_type", _S, "brief.input_type", False),
    Column("input_digest", _S, "input_digest"),
    Column("private", _B, "server.private", False),
    Column("task_id", _S, "server.task_id", False),
    Column("fence", _I, "server.fence", False),
    Column("lapsed", _I, "server.lapsed", False),
    Column("key_id", _S, "server.key_id"),
    Column("claimed_at", TIME, "server.claimed_at"),
    Column("submitted_at", TIME, "server.submitted_at"),
    Column("lease_seconds", _I, "server.lease_seconds"),
    Column("result", _S, "server.result", False),
    Column("state_after", _S, "server.state_after"),
    Column("failure_text", _S, "server.failure_text"),
    Column("receipt_sha256", _S, "server.receipt_sha256"),
    Column("retry", _B, "server.retry", False),
    Column("draws", _DRAWS, "server.draws", False),
    Column("has_report", _B, "report", False),
    Column("problem", _S, "report.summaries.problem"),
    Column("solution", _S, "report.summaries.solution"),
    Column("harness", _S, "report.harness"),
    Column("model", _S, "report.model"),
    Column("model_reported", _B, "report.model_reported", False),
    Column("input_tokens", _I, "report.usage.input_tokens"),
    Column("output_tokens", _I, "report.usage.output_tokens"),
    Column("total_tokens", _I, "report.usage.total_tokens"),
    Column("worker_outcome", _S, "report.learning.outcome"),
    Column("went_right", _TEXTS, "report.learning.went_right"),
    Column("went_wrong", _TEXTS, "report.learning.went_wrong"),
    Column("next_steps", _TEXTS, "report.learning.next_steps"),
    Column("ideas", _TEXTS, "report.learning.ideas"),
    Column("types_input", _S, "report.learning.types.input"),
    Column("types_output", _S, "report.learning.types.output"),
    Column("shim", _S, "report.learning.path.shim"),
    Column("method", _S, "report.learning.path.method"),
    Column("reasoning_summary", _S, "report.learning.reasoning_summary"),
    Column("reported_duration_seconds", _F, "report.learning.duration_seconds"),
    Column("cost_amount", _F, "report.learning.cost.amount"),
    Column("cost_currency", _S, "report.learning.cost.currency"),
    Column("cost_source", _S, "report.learning.cost.source"),
    Column("unknowns", _UNKNOWNS, "report.learning.unknowns"),
    Column("advice", _ADVICE, "report.learning.advice"),
    Column("trust_telemetry", _S, "trust.telemetry", False),
    Column("use_policy", _S, "use_policy.training_corpus", False),
)
SCHEMA: dict[str, pl.DataType] = {column.name: column.dtype for column in COLUMNS}
PATHS: dict[str, str] = {column.name: column.path for column in COLUMNS}
