"""The facts about each option in `option_table`: its rule, its role, and the option that it belongs to."""
