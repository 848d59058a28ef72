"""Prefix folds: a CTA or a thread for each row, or tiles that look back at those before them."""
