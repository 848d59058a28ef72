"""The language server: what an editor asks about a text, answered from the same tables and checkers as the commands."""
