"""Pictures of plans, comparisons, choices and histories: values in, charts of Altair out."""
