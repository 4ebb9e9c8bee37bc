"""From values to what people read: tables for the terminal, JSON for programs."""
