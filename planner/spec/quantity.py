"""Field types that read quantities with units and carry the source of a figure."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from planner import units
from planner.units import Dimension


def _quantity(dimension: Dimension) -> Any:
    """Annotations of a float that a spec writes with a unit of ``dimension``."""
    return (
        BeforeValidator(dimension.parse),
        WithJsonSchema(
            {
                "type": "string",
                "description": f"{dimension.name} with its unit, as in '{dimension.example}'",
                "examples": [dimension.example],
            }
        ),
    )


Bytes = Annotated[float, *_quantity(units.BYTES)]
BytesPerS = Annotated[float, *_quantity(units.BYTES_PER_S)]
FlopsPerS = Annotated[float, *_quantity(units.FLOPS_PER_S)]
Seconds = Annotated[float, *_quantity(units.SECONDS)]
Hertz = Annotated[float, *_quantity(units.HERTZ)]
Watts = Annotated[float, *_quantity(units.WATTS)]
PricePerHour = Annotated[float, *_quantity(units.PRICE_PER_HOUR)]
Count = Annotated[int, Field(gt=0)]


def _constant(value: object) -> object:
    """A ratio as it stands; a text as seconds or, where its unit is one, as a bandwidth."""
    if not isinstance(value, str):
        return value
    unit = value.lstrip("+-0123456789.eE_ ")
    dimension = units.BYTES_PER_S if unit in units.BYTES_PER_S.factors else units.SECONDS
    return dimension.parse(value)


ConstantValue = Annotated[
    float,
    BeforeValidator(_constant),
    WithJsonSchema(
        {
            "type": ["string", "number"],
            "description": "A ratio, or a time or bandwidth with its unit, as in '2.31 us'",
            "examples": ["2.31 us", 0.87],
        }
    ),
]

T = TypeVar("T")


class Figure(BaseModel, Generic[T]):
    """A number with its source: ``{value: 1008 GB/s, source: ada}``, or bare: ``1008 GB/s``.

    ``source`` names an entry of the file's ``sources``; ``planner catalog check`` asks for it in
    everything that ships, a user's own file may leave it out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: T
    source: str | None = None
    note: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, data: object) -> object:
        return data if isinstance(data, dict | Figure) else {"value": data}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The schema of both spellings: the mapping and the bare value."""
        whole = handler(schema)
        mapping = handler.resolve_ref_schema(whole)
        bare = mapping["properties"]["value"]
        return {"anyOf": [bare, whole]}
