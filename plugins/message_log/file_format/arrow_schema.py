"""The Arrow schemas of the tables of the export, and the Arrow types of the column types that `schema` names."""

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from . import schema

ROWS_MOST = 1 << 28  # of a file; more than a writer finishes in an hour
DIGITS = 15  # of a number in the metadata of a file, at most
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


def number_in(footer: pq.FileMetaData, key: str, default: int) -> int | None:
    """Return a number of the key-value metadata of a file, or None for text that no writer writes."""
    text = (footer.metadata or {}).get(key.encode(), b"%d" % default)
    return int(text) if text.isdigit() and len(text) <= DIGITS else None


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


def fits(table: str, footer: pq.FileMetaData) -> bool:
    """Return whether a file has the columns of its table, of their types, those that must not be null without nulls.

    A file with more than ROWS_MOST is refused, too: equal values take no space in the file, and much in memory.
    """
    if footer.num_rows > ROWS_MOST:
        return False
    columns = footer.schema.to_arrow_schema()
    fields = {field.name: field.type for field in columns}
    if len(fields) < len(columns):
        return False  # two columns have one name
    for name, kind, optional in schema.TABLES[table]:
        type = fields.get(name)
        if type is None:
            if not optional:
                return False
            continue
        numbers = pa.types.is_list(type) and type.value_type == pa.int64()
        if kind in ("map", "list"):
            if not (numbers if kind == "list" else pa.types.is_map(type)):
                return False
            continue
        text = pa.types.is_string(type) or pa.types.is_dictionary(type) and pa.types.is_string(type.value_type)
        if not (text if kind in ("string", "dictionary") else type == ARROW[kind]):
            return False
        if not optional and any(nulls(footer, name)):
            return False
    return True


def nulls(footer: pq.FileMetaData, name: str) -> Iterator[int]:
    """Yield the number of nulls of a column in each row group that has statistics of it."""
    for statistics in statistics_of(footer, name):
        if statistics.has_null_count:
            yield statistics.null_count


def statistics_of(footer: pq.FileMetaData, name: str) -> Iterator[pq.Statistics]:
    places = [place for place in range(footer.num_columns) if footer.schema.column(place).path == name]
    for group in range(footer.num_row_groups):
        for place in places:
            statistics = footer.row_group(group).column(place).statistics
            if statistics is not None:
                yield statistics
