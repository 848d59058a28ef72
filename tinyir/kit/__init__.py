"""What every room needs and no stage owns: text, spans, diagnostics, the command line."""
