"""What a card is: scalar types, architectures, cards and the instructions that kernels are spelled with. Knows no
text."""
