"""JSON Schema of the kinds."""

import jsonschema
import pytest
from spec_samples import DEPLOYMENT, GPU, MODEL

from planner.errors import UsageError
from planner.spec.schema import json_schema
from planner.spec.source import compose
from planner.spec.types import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_valid_schema_of_2020_12(kind):
    schema = json_schema(kind)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == f"planner {kind}"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("kind", "text"), [("deployment", DEPLOYMENT), ("gpu", GPU), ("model", MODEL)]
)
def test_what_the_loader_takes_the_schema_takes(kind, text):
    jsonschema.validate(compose(text, "f")[0], json_schema(kind))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("deployment", DEPLOYMENT.replace("context", "contxt")),
        ("deployment", DEPLOYMENT.replace("batch: 16", "batch: 0")),
        ("gpu", GPU.replace("72 MiB", "72")),
        ("gpu", GPU.replace("nvidia", "nvida")),
        ("model", MODEL.replace("repeat: 3", "repeat: x")),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(kind, text):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(compose(text, "f")[0], json_schema(kind))


def test_fields_bear_the_names_that_are_written():
    fields = json_schema("block")["$defs"]["NodeSpec"]["properties"]
    assert {"in", "out"} <= fields.keys()
    assert "inputs" not in fields


def test_an_unknown_kind_offers_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'model'"):
        json_schema("modle")
