"""What a worker needs to plan, imported before it is asked: loading it takes longer than a plan."""
