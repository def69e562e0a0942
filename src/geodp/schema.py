"""The JSON Schema of receipts: from the types of what they hold, and a table of what follows from it."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from typing import Any, Literal, Union, get_args, get_origin

from geodp import table
from geodp.fields import field_types
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.noise.intrinsic import IntrinsicMechanism
from geodp.noise.tangent import TangentMechanism
from geodp.privacy.cost import Cost
from geodp.privacy.notions import Parameters, Privacy
from geodp.receipt import EXACT, QUANTILES, SCHEMA, SIMULATED
from geodp.request import Count, Request, Statistic

Schema = dict[str, Any]

POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
NUMBER, COUNT = {"type": "number", "minimum": 0}, {"type": "integer", "minimum": 1}
NONE, TRUTH = {"type": "null"}, {"type": "boolean"}


def _to(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _either(*choices: Schema) -> Schema:
    return {"anyOf": list(choices)}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}, **more}


ARRAY, LINE = _to("array"), _to("line")
_ERRORS = ["expected", *(f"{q:g}" for q in QUANTILES)]
_MECHANISMS = [f"{kind.adjective} {law}" for kind in (IntrinsicMechanism, TangentMechanism) for law in ("Laplace", "Gaussian")]
_LENGTHS = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}}}

#: Every field of a receipt: what it looks like, and what it means.
FIELDS: dict[str, tuple[Schema, str]] = {
    "geodp": (LINE, "The version of the library that made the release."),
    "private": (TRUTH, "False for a simulation, which must not be published as private."),
    "numerics": ({"enum": [EXACT, SIMULATED]}, "Whether the draws are exact, with the operating system's entropy."),
    **{name: (POSITIVE, f"The {name} that was asked for.") for name in Parameters.__annotations__},
    "notion": ({"type": "string"}, "The notion of privacy, in words."),
    "cost": (_to("cost"), "What was spent, with the parameters of its privacy curve; 'spends' has bounds, null where none is."),
    "neighbours": (LINE, "Between which data sets this protects."),
    "dataset": (_either(LINE, NONE), "The data set whose budget was charged, in a ledger."),
    "charge": (_either(COUNT, NONE), "The number of the charge in the ledger."),
    "request": (_to("request"), "What was asked for. Everything but the version and the charge follows from it, n and draws."),
    "unit": ({"enum": ["record", "person"]}, "What each of n is."),
    "n": ({"type": "integer", "minimum": 0}, "How many records or persons were used."),
    "manifold": (LINE, "Where the records are, as Python writes it."),
    "draws": ({"type": "array", "minItems": 1, "items": ARRAY}, "What was drawn, in order; points in row-major order."),
    "center": (ARRAY, "The centre of the public ball."),
    "radius": (POSITIVE, "The radius of the public ball."),
    "bound": (NONE, "The sensitivity bound of a mean, or the bound on the norm of records of an average."),
    "mechanism": ({"enum": _MECHANISMS}, "Where the noise was added, and its law."),
    "sensitivity": (POSITIVE, "How far one record can move the exact value."),
    "tolerance": (NUMBER, "A bound on the numerical error of the value before noise."),
    "scale": (POSITIVE, "The scale of the noise."),
    "grid": (_either(POSITIVE, NONE), "The draw was rounded to multiples of this; null for a simulation."),
    "projected": (TRUTH, "Whether a draw outside the ball is moved to its boundary."),
    "error": (
        _object(dict.fromkeys(_ERRORS, NUMBER)),
        "Distances to the true value: a bound on the expected one, and quantiles by their probability.",
    ),
    "clipping": (
        _either(NUMBER, NONE),
        "With probability 95% clipping moved the mean by at most this; null where it was not measured.",
    ),
    "total_error": (
        _object({f"{q:g}": _either(NUMBER, NONE) for q in QUANTILES}),
        "Distances to the mean of the records themselves, noise and clipping together; null where clipping was not measured.",
    ),
    "verdict": ({"type": "string"}, "What the error means, in a line."),
    "value": (ARRAY, "The released value, in row-major order."),
    "steps": ({"type": "array", "items": LINE, "minItems": 1}, "The releases that it was made of, each with what it spent."),
    "distance": (POSITIVE, "About the median distance of the records from the value."),
    "arrived": (TRUTH, "Whether the last answers are those of a point among the records."),
    "approximate_error": (
        _object({f"{q:g}": NUMBER for q in QUANTILES}),
        "Distances to the median of the records by their probability, if the walk arrived.",
    ),
    "guaranteed_error": (_either(NUMBER, NONE), "The same with probability 0.95 for any records, if it was asked for."),
    "reach": (POSITIVE, "How far from its centre a record may pull."),
    "rounds": (COUNT, "How often the centres moved."),
    "centers": (ARRAY, "The private centres, one after the other."),
    "counts": (
        {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "Noisy numbers of the records of each cluster in the last round.",
    ),
    "count": (_to("count"), "The noisy count, where the number of records is private."),
    "coverage": (_to("coverage"), "How many records are valid, and how far clipping moved them, with noise."),
    "valid": ({"type": "integer", "minimum": 0}, "About how many records are points of the manifold."),
    "moved": (NUMBER, "About how far clipping moved the records on average, those beyond the second radius as if on it."),
    "outer": (POSITIVE, "The second radius: records beyond it count as if they were on it."),
    "coverage_share": (POSITIVE | {"maximum": 0.5}, "The part of the privacy that coverage was given."),
    "noise_cost": (_to("cost"), "The cost of the value alone, where a count or coverage is part of the release."),
    "layout": (
        _object({"name": {"type": "string"}}, {"columns": {"type": "array", "items": {"type": "string"}}}),
        "How the records were written, and the value and centre written like them.",
    ),
    "norm": (LINE, "What the errors of an average are lengths in: the name of a norm, or geodesic distance."),
    "in_units": (_LENGTHS, "Lengths in the units people use, or the factor by which standard deviations change."),
}

#: The fields of every receipt, of one with a value, and of those with fields of their own.
_ALL = ["geodp", "private", "notion", "cost", "neighbours", "dataset", "charge", "request"]
_ONE = [*_ALL, "numerics", "unit", "n", "manifold", "center", "radius", "draws"]
_MEDIAN = ["value", "distance", "arrived", "approximate_error", "guaranteed_error", "verdict", "steps"]
_VALUE = [*_ONE, "bound", "mechanism", "sensitivity", "tolerance", "scale", "grid", "projected", "error"]
_VALUE += ["clipping", "total_error", "verdict", "value"]
_OWN = {
    "ball": [*_ONE, "steps"],
    "clusters": [*_ONE, "reach", "rounds", "scale", "centers", "counts"],
    "coverage": [*_VALUE, "valid", "moved", "outer"],
    "median": [*_ONE, *_MEDIAN],
}
_OPTIONAL = [*Parameters.__annotations__, "count", "coverage", "coverage_share", "noise_cost", "layout", "norm", "in_units"]

_CHARGED = {"oneOf": [{"properties": dict.fromkeys(("dataset", "charge"), kind)} for kind in (NONE, {"not": NONE})]}
_SIMULATED = {
    "if": {"properties": {"numerics": {"const": EXACT}}},
    "then": {"properties": {"private": {"const": True}, "grid": POSITIVE}},
    "else": {"properties": {"private": {"const": False}, "grid": NONE, "dataset": NONE}},
}
_RULES = {
    "allOf": [_to("privacy"), _CHARGED, _SIMULATED],
    "dependentRequired": {"coverage": ["coverage_share", "noise_cost"], "coverage_share": ["coverage"]},
}


def release_schema() -> Schema:
    """The JSON Schema (draft 2020-12) of what ``to_json`` of every kind of release, ``--json`` and ``--out`` write.

    A program in any language can check a receipt with it, and generate types from it. Later versions of geodp may add
    fields; one that changes its meaning, or goes, makes a new version of the schema, which ``$id`` names.

    >>> release_schema()["$id"]
    'urn:geodp:release:1'
    """
    table.load()
    listed = {entry.module for entry in table.TABLE.values()}
    own = {name: kind.__module__ for name, kind in Statistic.known.items()}
    kinds = {name: Statistic.known[name] for name, module in own.items() if module in listed or module.startswith("geodp.")}
    single = [name for name, kind in kinds.items() if not kind.chain]
    receipts = {name: _receipt(kinds[name]) for name in single} | {"groups": _groups(single)}
    receipts |= {name: _chain(name, list(receipts)) for name, kind in kinds.items() if kind.chain}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "A release of geodp, version 1",
        **_object({"summary": {"enum": list(receipts)}}),
        "allOf": [{"if": {"properties": {"summary": {"const": name}}}, "then": _to(name)} for name in receipts],
        "$defs": {
            "line": {"type": "string", "minLength": 1, "pattern": "^[^\\n\\r]*$"},
            "array": _either({"type": "number"}, {"type": "array", "items": ARRAY}),
            "place": _object({"manifold": LINE, "center": ARRAY, "radius": POSITIVE}, additionalProperties=False),
            "privacy": {"oneOf": [_notion(kind) for kind in Privacy.__subclasses__()]},
            "cost": {"oneOf": [_cost(kind) for kind in Cost.__subclasses__()]},
            "statistic": {"oneOf": [_dataclass(kind, {"kind": {"const": name}}) for name, kind in kinds.items()]},
            "request": _dataclass(Request, {}),
            **receipts,
        },
    }


def _receipt(kind: Any) -> Schema:
    """A receipt of one kind of statistic."""
    names, hints = _OWN.get(kind.kind, _VALUE), field_types(kind)
    found = {name: _described(name) for name in [*names, *_OPTIONAL]}
    if kind is Count or not kind.of_records:
        found["n"] |= NONE
    if "bound" in hints:
        found["bound"] = _of(hints["bound"]) | {"description": FIELDS["bound"][1]}
    rules = _RULES
    if kind.kind != "ball" and hints.get("ball") != Ball:
        none: Schema = {"properties": {"center": NONE, "radius": NONE}}
        some: Schema = {"properties": {"center": ARRAY, "radius": POSITIVE}}
        found["center"], found["radius"] = ({"description": FIELDS[name][1]} for name in ("center", "radius"))
        rules = _RULES | {"oneOf": [none, some] if "ball" in hints else [none]}
    found["request"] |= {"properties": {"statistic": {"properties": {"kind": {"const": kind.kind}}}}}
    required = {"summary": {"const": kind.kind}, **{name: found.pop(name) for name in names}}
    return _object(required, found) | rules


def _groups(kinds: list[str]) -> Schema:
    """One receipt for each group."""
    one = _object({"name": {"type": ["string", "number", "boolean"]}, "release": _any(kinds)})
    return _several("groups", {"groups": {"type": "array", "minItems": 1, "items": one}})


def _chain(name: str, kinds: list[str]) -> Schema:
    """The receipts of releases that were requested one after the other."""
    return _several(name, {"releases": {"type": "array", "minItems": 1, "items": _any(kinds)}})


def _any(kinds: list[str]) -> Schema:
    return _object({"summary": {"enum": kinds}}) | {"oneOf": [_to(name) for name in kinds]}


def _several(summary: str, releases: dict[str, Schema]) -> Schema:
    required = {"summary": {"const": summary}, **{name: _described(name) for name in _ALL}, **releases}
    return _object(required, {name: _described(name) for name in Parameters.__annotations__}) | {
        "allOf": [_to("privacy"), _CHARGED]
    }


def _described(name: str) -> Schema:
    return FIELDS[name][0] | {"description": FIELDS[name][1]}


def _notion(kind: type[Privacy]) -> Schema:
    """The amounts of one notion of privacy, and none of the others."""
    own = {name: POSITIVE | ({"exclusiveMaximum": 1} if name == "delta" else {}) for name in field_types(kind)}
    others: dict[str, Any] = {name: False for name in Parameters.__annotations__ if name not in own}
    return _object(own, {"notion": {"const": kind.words}, **others})


def _cost(kind: type[Cost]) -> Schema:
    bounds = {name: _either(POSITIVE, NONE) for name in ("epsilon", "rho", "mu")}
    spends = _object({**bounds, "advantage": NUMBER | {"maximum": 1}})
    own = {name: {float: POSITIVE, int: COUNT}.get(hint) or _of(hint) for name, hint in field_types(kind).items()}
    return _object({"kind": {"const": kind.kind}, **own}, {"spends": spends}, additionalProperties=False)


def _dataclass(kind: Any, more: dict[str, Schema]) -> Schema:
    """What :func:`geodp.fields.plain` writes. A field with a default value may be left out."""
    hints = field_types(kind)
    required = {each.name: _of(hints[each.name]) for each in fields(kind) if each.default is MISSING}
    optional = {name: _of(hint) for name, hint in hints.items() if name not in required}
    return _object(more | required, optional, additionalProperties=False)


def _of(hint: Any) -> Schema:
    """What a field of this type looks like."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _either(*map(_of, get_args(hint)))
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    if origin is tuple:
        return {"type": "array", "items": _of(get_args(hint)[0])}
    whole = {"type": "integer", "minimum": 0}
    simple: dict[Any, Schema] = {type(None): NONE, bool: TRUTH, int: whole, float: {"type": "number"}, str: LINE}
    if hint in simple:
        return simple[hint]
    named = {Manifold: "line", Ball: "place", Privacy: "privacy", Statistic: "statistic", Request: "request", Cost: "cost"}
    return next(_to(name) for base, name in named.items() if issubclass(hint, base))
