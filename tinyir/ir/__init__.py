"""What each text is: one file a language, with its dataclasses, `parse`, `show` and `check`."""
