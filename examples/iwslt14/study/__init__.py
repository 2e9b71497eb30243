"""The IWSLT14 study: its data, what is run for a row of its tables, and the report of all rows."""
