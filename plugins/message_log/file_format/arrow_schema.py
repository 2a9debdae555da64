"""The Arrow schemas of the tables of the export, and the Arrow types of the column types that `schema` names."""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq

from . import schema

ARROW: dict[str, pa.DataType] = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "int16": pa.int16(),
    "int8": pa.int8(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "map": pa.map_(pa.string(), pa.string()),
    "list": pa.list_(pa.int64()),
}


def is_known(metadata: pq.FileMetaData) -> bool:
    """Return whether the footer is that of a file of the export, of the version of the schema that can be read."""
    return (metadata.metadata or {}).get(schema.SCHEMA_KEY.encode()) == b"%d" % schema.SCHEMA


def arrow_schema(table: str, without: Collection[str] = ()) -> pa.Schema:
    """Return the Arrow schema of a table without some columns, with the version of the schema in its metadata.

    Routing keys are a dictionary in memory, and strings in the file.
    """
    fields = [
        pa.field(column.name, ARROW["dictionary" if column.name == "routing_key" else column.type], column.optional)
        for column in schema.TABLES[table]
        if column.name not in without
    ]
    return pa.schema(fields, {schema.SCHEMA_KEY: str(schema.SCHEMA)})
