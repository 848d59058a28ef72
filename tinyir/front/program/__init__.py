"""What importers of models in binary forms share: a program of front-end ops in the making, its tensors, and the JSON
that it is printed as."""
