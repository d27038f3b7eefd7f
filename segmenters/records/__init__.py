"""Text that is made of records: subtitles, logs, tables, catalogues, settings and statements."""
