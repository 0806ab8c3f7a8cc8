"""Observations as Parquet: one row each, one flat column for each thing an item says.

Names and types are those of the workspace's table of observations, so that either reads the other's files;
every column is typed also when it is all null. Needs pyarrow, which the workspace extra brings.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any, BinaryIO

from tessera import canonical
from tessera.errors import TesseraError
from tessera.observations import WORDING

_ROWS = 10_000  # in a row group


def require() -> None:
    """Raise unless pyarrow is there."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError:
        raise TesseraError(
            "Parquet needs the workspace extra: pip install 'tessera[workspace]'; "
            "or give --out a name that ends in .jsonl"
        ) from None


def schema() -> Any:
    """The columns, in order, as a pyarrow schema."""
    import pyarrow as pa

    text, whole, real, flag = pa.string(), pa.int64(), pa.float64(), pa.bool_()
    texts, time = pa.list_(text), pa.timestamp("us", tz="UTC")
    record = [("store", text), ("key", text), ("version", whole)]
    arm = pa.struct([("arm", text), ("weight", real)])
    draw = pa.struct(
        [
            ("dimension", text),
            ("arm", text),
            ("propensity", real),
            ("arms", pa.list_(arm)),
            ("policy", pa.struct(record)),
        ]
    )
    advice = pa.struct(
        [
            ("learner", text),
            ("strategy", text),
            ("version", whole),
            ("store", text),
            ("key", text),
            ("record_version", whole),
        ]
    )
    columns: list[tuple[Any, str]] = [
        (text, "queue"),
        (whole, "cursor"),
        (text, "run_id origin kind template phrasing"),
        (texts, "tags"),
        (pa.struct([(name, text) for name in WORDING]), "wording"),
        (flag, "wording_truncated"),
        (text, "shape"),
        (flag, "shape_truncated"),
        (text, "input_type input_digest"),
        (flag, "private"),
        (text, "task_id"),
        (whole, "fence lapsed"),
        (text, "key_id"),
        (time, "claimed_at submitted_at"),
        (whole, "lease_seconds"),
        (text, "result state_after failure_text receipt_sha256"),
        (flag, "retry"),
        (pa.list_(draw), "draws"),
        (flag, "has_report"),
        (text, "problem solution harness model"),
        (flag, "model_reported"),
        (whole, "input_tokens output_tokens total_tokens"),
        (text, "worker_outcome"),
        (texts, "went_right went_wrong next_steps ideas"),
        (text, "types_input types_output shim method reasoning_summary"),
        (real, "reported_duration_seconds cost_amount"),
        (text, "cost_currency cost_source"),
        (pa.list_(pa.struct([("field", text), ("reason", text)])), "unknowns"),
        (pa.list_(advice), "advice"),
        (text, "trust_telemetry use_policy"),
    ]
    return pa.schema([(name, kind) for kind, names in columns for name in names.split()])


def row(item: dict[str, Any]) -> dict[str, Any]:
    """An item as one flat row; what the report does not say is null."""
    brief, server = item["brief"], item["server"]
    report = item["report"] or {}
    learning = report.get("learning") or {}
    summaries, usage = report.get("summaries") or {}, report.get("usage") or {}
    types, path, cost = (learning.get(name) or {} for name in ("types", "path", "cost"))
    return {
        **{
            name: server[name]
            for name in ("queue", "origin", "kind", "private", "task_id", "key_id", "retry")
        },
        **{name: server[name] for name in ("fence", "lapsed", "lease_seconds", "draws")},
        **{name: server[name] for name in ("result", "state_after", "failure_text", "receipt_sha256")},
        **{name: brief[name] for name in ("template", "phrasing", "tags", "wording", "wording_truncated")},
        **{name: brief[name] for name in ("shape_truncated", "input_type")},
        **{name: learning.get(name) for name in ("went_right", "went_wrong", "next_steps", "ideas")},
        **{name: learning.get(name) for name in ("reasoning_summary", "unknowns", "advice")},
        **{name: usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")},
        "cursor": int(item["cursor"]),
        "run_id": item["run_id"],
        "shape": canonical.dumps(brief["shape"]).decode(),
        "input_digest": item["input_digest"],
        "claimed_at": _time(server["claimed_at"]),
        "submitted_at": _time(server["submitted_at"]),
        "has_report": item["report"] is not None,
        "problem": summaries.get("problem"),
        "solution": summaries.get("solution"),
        "harness": report.get("harness"),
        "model": report.get("model"),
        "model_reported": bool(report.get("model_reported")),
        "worker_outcome": learning.get("outcome"),
        "types_input": types.get("input"),
        "types_output": types.get("output"),
        "shim": path.get("shim"),
        "method": path.get("method"),
        "reported_duration_seconds": learning.get("duration_seconds"),
        "cost_amount": cost.get("amount"),
        "cost_currency": cost.get("currency"),
        "cost_source": cost.get("source"),
        "trust_telemetry": item["trust"]["telemetry"],
        "use_policy": item["use_policy"]["training_corpus"],
    }


def write(file: BinaryIO, items: Iterable[dict[str, Any]]) -> int:
    """Write the items' rows; how many there were. An empty table is a file with its schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, source, count = schema(), iter(items), 0
    with pq.ParquetWriter(file, columns, compression="zstd") as writer:
        while rows := [row(item) for item in islice(source, _ROWS)]:
            writer.write_table(pa.Table.from_pylist(rows, schema=columns))
            count += len(rows)
    return count


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
