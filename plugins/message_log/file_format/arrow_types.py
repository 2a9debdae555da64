"""The Arrow types of the columns of the export, by the types that `schema` names."""

import pyarrow as pa

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
