"""What the calls answer, as JSON Schema: the named shapes of the OpenAPI document.

Every member is required, null where unknown; what has no bound here has it in the request that brought it in.
"""

from typing import Any

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_ID: Json = {"type": "string", "maxLength": 64}
_MOMENT: Json = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
_DIGEST: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_CURSOR: Json = {"type": "string", "pattern": "^(?:0|[1-9][0-9]{0,18})$"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_FLAG: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object"}


def _nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _object(**members: Json) -> Json:
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _page(item: str, after: Json, **more: Json) -> Json:
    return _object(items=_array(ref(item)), next_after=after, has_more=_FLAG, **more)


def ref(name: str) -> Json:
    """A reference to a named shape."""
    return {"$ref": f"#/components/schemas/{name}"}


_STATE: Json = {"type": "string", "enum": ["queued", "claimed", "succeeded", "failed", "cancelled"]}
_TASK = {"task_id": _ID, "state": _STATE, "fence": _COUNT, "queue": _TEXT, "kind": _TEXT}
_PIN = _object(store=_TEXT, key=_TEXT, version=_COUNT, sha256=_DIGEST)
_POLICY = _nullable(_object(store=_TEXT, key=_TEXT, version=_COUNT))
_ARMS = _array(_object(arm=_TEXT, weight={"type": "number"}))
_PROPENSITY: Json = {"type": "number", "minimum": 0}
_ITEM = {
    "schema": {"const": "execution-observation-v1"},
    "run_id": _ID,
    "cursor": _CURSOR,
    "brief": _object(
        template=_nullable(_TEXT),
        phrasing=_nullable(_TEXT),
        tags=_array(_TEXT),
        wording=_OBJECT,
        wording_truncated=_FLAG,
        shape=_OBJECT,
        shape_truncated=_FLAG,
        input_type=_TEXT,
    ),
    "input_digest": _nullable(_DIGEST),
    "server": _object(
        origin={"enum": ["live", "imported"]},
        private=_FLAG,
        task_id=_ID,
        kind=_TEXT,
        queue=_TEXT,
        fence=_COUNT,
        lapsed=_COUNT,
        key_id=_ID,
        claimed_at=_nullable(_MOMENT),
        submitted_at=_nullable(_MOMENT),
        lease_seconds=_nullable(_COUNT),
        result={"enum": ["accepted", "failed"]},
        state_after=_nullable(_STATE),
        failure_text=_nullable(_TEXT),
        receipt_sha256=_nullable(_DIGEST),
        retry=_FLAG,
        draws=_array(_object(dimension=_TEXT, arm=_TEXT, propensity=_PROPENSITY, arms=_ARMS, policy=_POLICY)),
    ),
    "report": _nullable(_OBJECT),
    "trust": _object(telemetry={"const": "worker_reported"}),
    "use_policy": _object(training_corpus={"const": "excluded_by_default"}),
}
_RECEIPT = {
    "run_id": _ID,
    "task_id": _ID,
    "fence": _COUNT,
    "result": {"enum": ["accepted", "failed"]},
    "state_after": _STATE,
    "submitted_at": _MOMENT,
    "input_digest": _DIGEST,
    "output_sha256": _nullable(_DIGEST),
    "report_sha256": _nullable(_DIGEST),
    "receipt_sha256": _DIGEST,
}
_SURFACE = _nullable({"type": "object", "properties": {"queue": _TEXT, "kind": _TEXT}, "required": ["queue"]})
_HEAD = {
    "store": _TEXT,
    "key": _TEXT,
    "version": _COUNT,
    "category": _TEXT,
    "tags": _array(_TEXT),
    "visibility": {"enum": ["private", "surface_only", "shared"]},
    "surface": _SURFACE,
    "sha256": _DIGEST,
    "created_at": _MOMENT,
    "key_id": _ID,
}
_GRANT = {
    "id": _ID,
    "name": _TEXT,
    "scopes": _array(_TEXT),
    "queues": _array(_TEXT),
    "kinds": _nullable(_array(_TEXT)),
    "stores": _nullable(_array(_TEXT)),
}
_LEASE = _nullable(_MOMENT)

SCHEMAS: dict[str, Json] = {
    "Problem": {
        "type": "object",
        "description": "Problem details, RFC 9457; some kinds have further members.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "errors": _array(_object(path=_TEXT, message=_TEXT)),
            "conflicts": _array(_OBJECT),
        },
    },
    "TaskBrief": _object(**_TASK),
    "Task": _object(
        **_TASK,
        private=_FLAG,
        priority={"type": "integer"},
        max_attempts=_COUNT,
        owner_key_id=_ID,
        created_at=_MOMENT,
        lease_expires_at=_LEASE,
    ),
    "Claim": _object(
        **_TASK, input_digest=_DIGEST, lease_expires_at=_MOMENT, brief=_OBJECT, pins=_array(_PIN)
    ),
    "Lease": _object(**_TASK, lease_expires_at=_MOMENT),
    "Drawn": _object(arm=_TEXT, propensity=_PROPENSITY),
    "Draw": _object(
        task_id=_ID,
        submitted=_COUNT,
        dimension=_TEXT,
        fence=_COUNT,
        arm=_TEXT,
        propensity=_PROPENSITY,
        arms=_ARMS,
        policy=_POLICY,
        recomputed=_object(arm=_TEXT, propensity=_PROPENSITY),
        agrees=_FLAG,
    ),
    "Draws": _page("Draw", _TEXT),
    "Receipt": _object(**_RECEIPT),
    "Observation": _object(**_ITEM),
    "Observations": _page("Observation", _CURSOR, store_id=_ID),
    "Pending": _object(count=_COUNT, capped=_FLAG, last=_CURSOR, store_id=_ID),
    "Execution": _object(
        **_ITEM,
        brief_full=_nullable(_OBJECT),
        pins=_array(_PIN),
        output={},
        failure=_nullable(_TEXT),
        receipt=_nullable(ref("Receipt")),
    ),
    "Recalled": _object(
        matches=_array(
            _object(
                run_id=_ID,
                via={"enum": ["exact", "shape", "simhash"]},
                distance=_nullable({"type": "integer", "minimum": 0, "maximum": 64}),
            )
        ),
        evidence_only={"const": True},
    ),
    "Imported": _object(imported=_COUNT, already_there=_COUNT),
    "Queues": _object(queues=_array(_TEXT), store_id=_ID),
    "Written": _object(records=_array(_object(store=_TEXT, key=_TEXT, version=_COUNT, sha256=_DIGEST))),
    "Record": _object(**_HEAD, body=_OBJECT),
    "RecordHead": _object(**_HEAD),
    "Records": _page("RecordHead", _TEXT),
    "KeyMade": _object(id=_ID, secret=_TEXT),
    "Key": _object(
        **_GRANT, created_at=_MOMENT, expires_at=_nullable(_MOMENT), revoked_at=_nullable(_MOMENT)
    ),
    "Keys": _page("Key", _TEXT),
    "KeyRevoked": _object(id=_ID, revoked_at=_MOMENT),
    "Whoami": _object(**_GRANT, expires_at=_nullable(_MOMENT), store_id=_ID),
    "Health": _object(status={"const": "ok"}),
}
