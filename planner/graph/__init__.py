"""From model specs to graphs: one networkx graph per kind of block, and their sequence."""
