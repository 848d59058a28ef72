"""One file an executable: its words, its options, and which rooms it joins. `bin/` and the installed scripts call
`main` here."""
