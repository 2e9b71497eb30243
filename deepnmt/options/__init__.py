"""What is known of each option: its range, its role, and the option that it belongs to; asked in one place.

rule.py          what a value must be, in words and as a function
option_table.py  a row an option, and the walker that holds values against the rows
"""
