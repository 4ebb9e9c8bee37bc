"""From model specs to graphs: one networkx graph per kind of block, and the sequence that runs them."""
