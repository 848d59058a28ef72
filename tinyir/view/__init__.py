"""Pictures of texts: the graph of any stage, as Graphviz DOT, and a page that shows a program at every stage."""
