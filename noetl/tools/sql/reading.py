"""Whether a text of SQL only asks for rows, as far as the parser of its database can tell. No table
is looked for, and nothing is run: a view that calls what writes is not seen through.

Each function takes a text without templates, and whether `:name` in it is bound; False for what is
no SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from noetl.tools.sql.syntax import duckdb_fault, replace_names, sqlite_fault
from noetl.tools.sql.text import split, tokens

#: What a statement that begins with `WITH` may do besides asking.
_WRITES: Final = frozenset({"insert", "update", "delete", "merge"})
#: Functions of DuckDB that run what they are given in an attached database.
_EXECUTES: Final = frozenset({"postgres_execute", "mysql_execute", "sqlite_execute"})
_CHANGES: Final = _WRITES | _EXECUTES | {"nextval"}

#: Nodes by which a query of PostgreSQL writes or locks.
_WRITING_NODES: Final = frozenset({"IntoClause", "LockingClause"})
_ASKING_NODES: Final = frozenset({"SelectStmt", "RawStmt"})

#: Functions of PostgreSQL that change nothing. Of others, which are often the user's own, nobody
#: can tell.
_NAMES: Final = """
    abs acos age array_agg array_append array_cat array_dims array_fill array_length array_lower
    array_ndims array_position array_positions array_prepend array_remove array_replace array_to_json
    array_to_string array_upper ascii asin atan atan2 avg bit_and bit_length bit_or bool_and bool_or
    btrim cardinality cbrt ceil ceiling char_length character_length chr clock_timestamp concat
    concat_ws convert_from convert_to corr cos count covar_pop covar_samp cume_dist current_database
    current_schema current_schemas current_setting date_bin date_part date_trunc decode degrees
    dense_rank div encode every exp extract factorial first_value floor format gcd gen_random_uuid
    generate_series generate_subscripts initcap isfinite json_agg json_array_elements
    json_array_elements_text json_array_length json_build_array json_build_object json_each
    json_each_text json_extract_path json_extract_path_text json_object json_object_agg json_object_keys
    json_populate_record json_populate_recordset json_strip_nulls json_to_record json_to_recordset
    json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path
    jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_keys
    jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first
    jsonb_populate_record jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_strip_nulls
    jsonb_to_record jsonb_to_recordset jsonb_typeof justify_days justify_hours justify_interval lag
    last_value lcm lead left length ln log log10 lower lower_inc lower_inf lpad ltrim make_date
    make_interval make_time make_timestamp make_timestamptz max md5 min mod mode now nth_value ntile
    octet_length overlay percent_rank percentile_cont percentile_disc pg_typeof pi position power
    quote_ident quote_literal quote_nullable radians random range_agg rank regexp_count regexp_instr
    regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table
    regexp_substr regr_intercept regr_r2 regr_slope repeat replace reverse right round row_number
    row_to_json rpad rtrim sha224 sha256 sha384 sha512 sign sin split_part sqrt starts_with
    statement_timestamp stddev stddev_pop stddev_samp string_agg string_to_array string_to_table strpos
    substr substring sum tan timeofday timezone to_char to_date to_hex to_json to_jsonb to_number
    to_regclass to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim_array trunc
    ts_rank unnest upper upper_inc upper_inf var_pop var_samp variance version width_bucket
    """
HARMLESS: Final = frozenset(_NAMES.split())


def postgres_reads(text: str, with_params: bool) -> bool:
    """Every statement is a query that neither writes nor locks, by itself, in a `WITH`, or by a
    function that is not known to be harmless."""
    import postgast  # see `postgres_fault`

    try:
        tree = postgast.parse(replace_names(text, with_params))
    except (postgast.PgQueryError, ValueError, RecursionError):
        return False
    return all(_asks(type(node).__name__, node) for _, node in postgast.walk(tree))


def _asks(name: str, node: object) -> bool:
    if name.endswith("Stmt"):
        return name in _ASKING_NODES
    if name == "FuncCall":
        return _function(node) in HARMLESS
    return name not in _WRITING_NODES


def _function(node: object) -> str:
    """The name of a function of PostgreSQL's own; empty of one in a schema of the user's."""
    schema, name = "pg_catalog", ""
    for part in getattr(node, "funcname", ()):
        schema, name = name or schema, part.string.sval
    return name if schema == "pg_catalog" else ""


def duckdb_reads(text: str, with_params: bool) -> bool:
    """Every statement is a query, and names nothing that writes."""
    return _duckdb_types(text, with_params) <= {"SELECT"} and not _words(text) & _CHANGES


#: What a statement of DuckDB changes in its own database only.
_OF_ITS_OWN: Final = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "EXPLAIN", "TRANSACTION"}
)


def duckdb_stays_inside(text: str, with_params: bool) -> bool:
    """Every statement changes nothing but the database that it runs in: it copies nothing out."""
    return _duckdb_types(text, with_params) <= _OF_ITS_OWN and not _words(text) & {"secret", *_EXECUTES}


def _duckdb_types(text: str, with_params: bool) -> set[str]:
    import duckdb  # see `duckdb_fault`

    if duckdb_fault(text, with_params) is not None:
        return {"INVALID"}
    try:
        return {one.type.name for one in duckdb.extract_statements(replace_names(text, with_params))}
    except duckdb.Error:
        return {"INVALID"}


def sqlite_reads(text: str, with_params: bool) -> bool:
    """Every statement is a query, and SQLite has none that writes."""
    queries = all(_is_query(statement.words) for statement in split(text))
    return queries and sqlite_fault(text, with_params) is None


def _is_query(words: Sequence[str]) -> bool:
    match words:
        case ["select" | "values", *_]:
            return True
        case ["with", *_]:
            return not {*_WRITES, "replace"} & set(words)
        case _:
            return False


def _words(text: str) -> set[str]:
    """All words of `text`, also those in double quotes: names of functions may stand in them."""
    return {one.text.strip('"').lower() for one in tokens(text) if one.kind in ("word", "quoted")}
