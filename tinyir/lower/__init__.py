"""What a filter does: one file a filter, from the language before it to its own."""
